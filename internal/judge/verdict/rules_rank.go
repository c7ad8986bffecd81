package verdict

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// mostExact is the most pairs for which the permutation distribution is counted out; drawn is the number of random
// orders tried beyond.
const (
	mostExact = 9
	drawn     = 9999
)

// rankCorrelation is Spearman's rank correlation of pairs, mid-ranks for ties, and the one-sided permutation p value of
// one at least as large, given no relation: exact up to mostExact pairs, else over random orders from a fixed seed, the
// one seen included (Phipson and Smyth 2010, so that it is never 0). Both are NaN where one side is constant or there
// are fewer than three pairs.
func rankCorrelation(x, y []float64) (rho, p float64) {
	n := len(x)
	if n < 3 || len(y) != n {
		return math.NaN(), math.NaN()
	}
	a, b := doubleRanks(x), doubleRanks(y)
	// Doubled mid-ranks are whole numbers, so sums compare without rounding. Their mean is n+1.
	var ab, aa, bb int
	for i := range n {
		ab += a[i] * b[i]
		aa += a[i] * a[i]
		bb += b[i] * b[i]
	}
	mean := n * (n + 1) * (n + 1)
	if aa == mean || bb == mean {
		return math.NaN(), math.NaN()
	}
	rho = float64(ab-mean) / math.Sqrt(float64(aa-mean)*float64(bb-mean))
	if n <= mostExact {
		return rho, exactTail(a, b, ab)
	}
	return rho, drawnTail(a, b, ab)
}

// doubleRanks gives twice the rank of each value, from 2; ties share their mean.
func doubleRanks(x []float64) []int {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(x[i], x[j]) })
	ranks := make([]int, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			ranks[k] = i + 1 + j // (i+1 + j)/2, doubled
		}
		i = j
	}
	return ranks
}

// exactTail is the share of the n! pairings of a and b whose sum of products is at least seen. It counts pairings by
// sum over the subsets of b that the first elements of a have taken: n 2^n steps instead of n!.
func exactTail(a, b []int, seen int) float64 {
	n := len(a)
	most := 0
	for i := range n { // Cauchy-Schwarz would do; the sorted pairing is the maximum itself
		most += slices.Sorted(slices.Values(a))[i] * slices.Sorted(slices.Values(b))[i]
	}
	counts := make([][]float64, 1<<n) // counts of at most 9! are exact
	counts[0] = make([]float64, most+1)
	counts[0][0] = 1
	for set := range counts[:len(counts)-1] {
		from := counts[set]
		next := a[bits.OnesCount(uint(set))]
		for j := range n {
			to := set | 1<<j
			if to == set {
				continue
			}
			if counts[to] == nil {
				counts[to] = make([]float64, most+1)
			}
			step := next * b[j]
			for sum, ways := range from[:most+1-min(step, most)] {
				if ways > 0 {
					counts[to][sum+step] += ways
				}
			}
		}
		counts[set] = nil
	}
	tail, all := 0.0, 0.0
	for sum, ways := range counts[len(counts)-1] {
		all += ways
		if sum >= seen {
			tail += ways
		}
	}
	return tail / all
}

func drawnTail(a, b []int, seen int) float64 {
	rng := rand.New(rand.NewPCG(1904, uint64(len(a)))) // any fixed seed: the same bundle must give the same report
	shuffled := slices.Clone(b)
	atLeast := 1
	for range drawn {
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		sum := 0
		for i := range a {
			sum += a[i] * shuffled[i]
		}
		if sum >= seen {
			atLeast++
		}
	}
	return float64(atLeast) / (drawn + 1)
}
