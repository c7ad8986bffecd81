package bzip2

import "slices"

// longestWritten is the longest word that is written, as in bzip2.
const longestWritten = 17

// chooseTables finds tables, and for each group of symbols the one that codes it shortest: it begins with tables for
// equal shares of the symbols, lets every group choose, makes tables of what chose them, and does so again.
func chooseTables(symbols []uint16, n int) (choices []uint8, lengths [][maxSymbols]uint8) {
	tables := maxTables
	for i, most := range []int{200, 600, 1200, 2400} {
		if len(symbols) < most {
			tables = minTables + i
			break
		}
	}
	lengths = firstTables(symbols, n, tables)
	choices = make([]uint8, (len(symbols)+groupSize-1)/groupSize)
	for range 4 {
		counts := make([][maxSymbols]int, tables)
		for g := range choices {
			group := symbols[g*groupSize : min((g+1)*groupSize, len(symbols))]
			best, least := 0, 1<<30
			for t := range tables {
				cost := 0
				for _, s := range group {
					cost += int(lengths[t][s])
				}
				if cost < least {
					best, least = t, cost
				}
			}
			choices[g] = uint8(best)
			for _, s := range group {
				counts[best][s]++
			}
		}
		for t := range tables {
			lengths[t] = codeLengths(counts[t][:n])
		}
	}
	return choices, lengths
}

// firstTables gives each table short words for its share of the symbols, and long ones for the others.
func firstTables(symbols []uint16, n, tables int) [][maxSymbols]uint8 {
	var count [maxSymbols]int
	for _, s := range symbols {
		count[s]++
	}
	lengths := make([][maxSymbols]uint8, tables)
	left, from := len(symbols), 0
	for t := range tables {
		share, to := 0, from
		for to < n && (share < left/(tables-t) || to == from) {
			share += count[to]
			to++
		}
		for s := range n {
			lengths[t][s] = 15
			if s >= from && s < to {
				lengths[t][s] = 1
			}
		}
		left, from = left-share, to
	}
	return lengths
}

// codeLengths makes the lengths of a Huffman code. Every symbol gets a word, because a later group may need it.
func codeLengths(counts []int) (lengths [maxSymbols]uint8) {
	weights := make([]int, len(counts))
	for s, c := range counts {
		weights[s] = max(c, 1)
	}
	for {
		longest := huffmanLengths(weights, &lengths)
		if longest <= longestWritten {
			return lengths
		}
		for s := range weights { // flatter weights, shorter words
			weights[s] = weights[s]/2 + 1
		}
	}
}

// huffmanLengths merges the two lightest nodes until one is left. One queue has the leaves in order of weight, another
// one the merged nodes, which are created in order of weight.
func huffmanLengths(weights []int, lengths *[maxSymbols]uint8) (longest int) {
	n := len(weights)
	leaf, sorted := make([]int, n), make([]int64, n)
	for s := range sorted {
		sorted[s] = int64(weights[s])<<16 | int64(s) // equal weights in order of symbols
	}
	slices.Sort(sorted)
	for i, s := range sorted {
		leaf[i] = int(s & 0xffff)
	}
	weight, parent := make([]int, 2*n), make([]int, 2*n)
	copy(weight, weights)
	i, j, end := 0, n, n
	lightest := func() int {
		if j == end || i < n && weight[leaf[i]] <= weight[j] {
			i++
			return leaf[i-1]
		}
		j++
		return j - 1
	}
	for end < 2*n-1 {
		a := lightest()
		b := lightest()
		weight[end], parent[a], parent[b] = weight[a]+weight[b], end, end
		end++
	}
	for s := range n {
		depth := 0
		for at := s; at != 2*n-2; at = parent[at] {
			depth++
		}
		lengths[s] = uint8(min(depth, 255))
		longest = max(longest, depth)
	}
	return longest
}

// words makes the canonical code of lengths.
func words(lengths []uint8) (code [maxSymbols]uint32) {
	next := uint32(0)
	for n := uint8(1); n <= maxLength; n++ {
		for s, l := range lengths {
			if l == n {
				code[s] = next
				next++
			}
		}
		next <<= 1
	}
	return code
}
