package replay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tare/internal/record"
	"tare/internal/sys/sql/trace"
)

func TestGroupsAreTheMostFrequent(t *testing.T) {
	kinds := make([]trace.Fingerprint, 3*record.MaxGroups)
	executions := make([]int64, len(kinds))
	for i := range kinds {
		kinds[i] = trace.Fingerprint{ID: uint64(len(kinds) - i), Text: fmt.Sprint(i)}
		executions[i] = int64(i % 7)
	}
	kinds[6].ID = 0 // stands for many
	g := group(kinds, executions)
	if len(g.members) != record.MaxGroups || !g.rest {
		t.Fatalf("%d groups, rest %v", len(g.members), g.rest)
	}
	for i, f := range g.members[1:] {
		before := g.members[i]
		if executions[f] > executions[before] || executions[f] == executions[before] && kinds[f].ID < kinds[before].ID {
			t.Fatalf("fingerprint %d is behind %d", f, before)
		}
	}
	for f, n := range executions {
		at := g.of[f]
		if at != other && g.members[at] != f || at != other && n == 0 {
			t.Errorf("fingerprint %d with %d executions is in group %d", f, n, at)
		}
	}
	if g.of[6] != other {
		t.Error("fingerprints that are not told apart have a group")
	}
	few := group(kinds[:3], []int64{0, 5, 0})
	if few.rest || !slices.Equal(few.members, []int{1}) {
		t.Errorf("%+v", few)
	}
}

// Lanes finish statements in any order, and that changes nothing; a result that another statement should have does.
func TestEvidence(t *testing.T) {
	results := []Result{{Rows: 3, Unordered: 11, Ordered: 12}, {Rows: 3, Unordered: 21, Ordered: 22}, {Rows: 1}}
	sum := func(order ...int) string {
		var all tally
		for number, i := range order {
			var one tally
			one.statement(uint64(number), false, &results[i])
			all.add(&one)
		}
		return all.check(&Options{Item: "statement", Rows: "rows"})
	}
	var first, second tally
	first.statement(0, false, &results[0])
	first.statement(2, false, &results[2])
	second.statement(1, false, &results[1])
	second.add(&first)
	if got := second.check(&Options{Item: "statement", Rows: "rows"}); got != sum(0, 1, 2) {
		t.Errorf("in another order it is %s instead of %s", got, sum(0, 1, 2))
	}
	if sum(0, 1, 2) == sum(1, 0, 2) {
		t.Error("exchanged results have the same sum")
	}
	second.statement(3, true, &results[0])
	if got := second.check(&Options{Item: "statement", Rows: "rows"}); got != sum(0, 1, 2) || second.rows != 10 {
		t.Errorf("a volatile statement gives %s with %d rows", got, second.rows)
	}
}

// TestLatencies compares with sorting, for few statements and for more than are kept one by one.
func TestLatencies(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 5000
	for _, l := range []*latencies{newLatencies(n), newLatencies(maxExact + 1)} {
		groups := map[int][]float64{}
		var all []float64
		for i := range int64(n) {
			group, ns := rng.IntN(3), rng.Int64N(1<<30)
			if group == 2 {
				group = other
			}
			l.put(i, uint16(group), ns)
			groups[group] = append(groups[group], seconds(ns))
			all = append(all, seconds(ns))
		}
		l.sort()
		slices.Sort(all)
		check := func(what string, got float64, sorted []float64, permille int) {
			t.Helper()
			want := sorted[(permille*len(sorted)+999)/1000-1]
			if got < want || got > want*129/128 || l.exact != nil && got != want {
				t.Errorf("%s: quantile %d/1000 is %v, want %v", what, permille, got, want)
			}
		}
		for _, permille := range []int{1, 500, 990} {
			check("all", l.overall(float64(permille)/1000), all, permille)
			for g, v := range groups {
				slices.Sort(v)
				check(fmt.Sprint("group ", g), l.quantile(g, float64(permille)/1000), v, permille)
			}
		}
		if l.quantile(7, 0.5) != 0 {
			t.Error("an empty group has a median")
		}
	}
}
