package fleet

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var day = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// host is a candidate of a fleet of eight.
func host(name string, number int, change func(*Host)) Candidate {
	h := &Host{Name: name, Machine: "m-" + strings.ToLower(name), Marked: number > 0, Number: number, Plan: "plan",
		Build: "build", RunID: fmt.Sprintf("run-%s-%d", name, number), Created: day, Finished: true, Trials: 20}
	if number > 0 {
		h.Of = 8
	}
	if change != nil {
		change(h)
	}
	return Candidate{Bundle: fmt.Sprintf("b-%s-%d", name, number), Host: h}
}

func admit(t *testing.T, rules Rules, all ...Candidate) *Admitted {
	t.Helper()
	rules.Now = day
	a := Admit(all, rules)
	// The order in which bundles are given decides nothing.
	rng := rand.New(rand.NewPCG(5, 6))
	for range 5 {
		shuffled := slices.Clone(all)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if b := Admit(shuffled, rules); !reflect.DeepEqual(a, b) {
			t.Errorf("in another order:\n%+v\n%+v", b, a)
		}
	}
	return a
}

func counted(a *Admitted) (names []string) {
	for _, c := range a.Hosts {
		names = append(names, c.Host.Name)
	}
	return names
}

func codes(a *Admitted) (codes []string) {
	for _, r := range a.Refused {
		codes = append(codes, r.Host+" "+r.Code)
	}
	for _, w := range a.Warnings {
		codes = append(codes, w.Code)
	}
	return codes
}

func TestAdmit(t *testing.T) {
	a, b, c := host("a", 1, nil), host("b", 2, nil), host("c", 3, nil)
	for _, test := range []struct {
		name     string
		rules    Rules
		all      []Candidate
		counted  string
		codes    string
		missing  int
		expected int
	}{
		{"all there but five", Rules{}, []Candidate{a, b, c}, "a b c", "", 5, 8},
		{"none", Rules{}, nil, "", "", 0, 0},
		{"another plan", Rules{}, []Candidate{a, b, host("c", 3, func(h *Host) { h.Plan = "other" })}, "a b",
			"c other-plan", 6, 8},
		{"the plan that is asked for", Rules{Plan: "other"},
			[]Candidate{a, b, host("c", 3, func(h *Host) { h.Plan = "other" })}, "c", "a other-plan, b other-plan", 7,
			8},
		{"another build", Rules{}, []Candidate{a, b, host("c", 3, func(h *Host) { h.Build = "x" })}, "a b",
			"c other-build", 6, 8},
		{"a bundle twice", Rules{}, []Candidate{a, b, {Bundle: "copy", Host: a.Host}}, "a b", "a same-bundle", 6, 8},
		{"a machine twice: what is finished counts", Rules{}, []Candidate{b,
			host("A", 1, func(h *Host) { h.Finished, h.Trials = false, 99 }), host("a", 1, nil)}, "a b",
			"A same-host", 6, 8},
		{"a machine under two names", Rules{}, []Candidate{a,
			host("alias", 2, func(h *Host) { h.Machine = "m-a" })}, "a", "alias same-host", 7, 8},
		{"nodes that share a machine", Rules{By: ByName}, []Candidate{a,
			host("n2", 2, func(h *Host) { h.Machine = "m-a" })}, "a n2", "", 6, 8},
		{"by name, capitals do not count", Rules{By: ByName}, []Candidate{a,
			host("A", 1, func(h *Host) { h.Machine, h.Trials = "m-z", 10 })}, "a", "A same-host", 7, 8},
		{"two machines whose names differ in case", Rules{}, []Candidate{host("node", 1, nil),
			host("Node", 2, func(h *Host) { h.Machine = "m-other" })}, "node#1 Node#2", "names-differ-in-case", 6, 8},
		{"two machines of one name", Rules{}, []Candidate{host("node", 1, nil),
			host("node", 2, func(h *Host) { h.Machine = "m-other" })}, "node#1 node#2", "same-name", 6, 8},
		{"a calendar that is years off", Rules{}, []Candidate{a, b, c,
			host("d", 4, func(h *Host) { h.Created = day.AddDate(-20, 0, 0) })}, "a b c d", "clock-off", 4, 8},
		{"a calendar ahead of ours", Rules{}, []Candidate{host("d", 4,
			func(h *Host) { h.Created = day.AddDate(1, 0, 0) })}, "d", "clock-off", 7, 8},
		{"a part by two machines", Rules{}, []Candidate{a, host("b", 1, nil)}, "a b", "part-twice", 7, 9},
		{"waited for another fleet", Rules{}, []Candidate{host("a", 1, func(h *Host) { h.WaitedS = 35 })}, "a",
			"waited", 7, 8},
		{"runs of their own", Rules{}, []Candidate{host("a", 0, nil), host("b", 0, nil)}, "a b", "", 0, 2},
		{"runs of their own, of ten", Rules{Parts: 10}, []Candidate{host("a", 0, nil), host("b", 0, nil)}, "a b", "", 1,
			10},
		{"named hosts", Rules{Expected: []string{"A", "x"}}, []Candidate{a, b}, "a b", "", 1, 3},
		{"named hosts whose names differ in case", Rules{Expected: []string{"node", "Node", "x"}}, []Candidate{
			host("Node", 1, nil)}, "Node", "", 2, 3},
		{"both of them", Rules{Expected: []string{"node", "NODE"}}, []Candidate{host("node", 1, nil),
			host("Node", 2, func(h *Host) { h.Machine = "m-other" })}, "node#1 Node#2", "names-differ-in-case", 0, 2},
		{"one of them by name", Rules{By: ByName, Expected: []string{"node", "Node"}}, []Candidate{
			host("Node", 1, nil)}, "Node", "", 0, 1},
		{"what cannot be read", Rules{}, []Candidate{a, {Bundle: "broken", Refused: &Refusal{Bundle: "broken",
			Code: Damaged}}}, "a", " damaged", 7, 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := admit(t, test.rules, test.all...)
			if s := strings.Join(counted(got), " "); s != test.counted {
				t.Errorf("%q count, want %q", s, test.counted)
			}
			if s := strings.Join(codes(got), ", "); s != test.codes {
				t.Errorf("refused and warned: %q, want %q", s, test.codes)
			}
			if len(got.Missing) != test.missing || got.Expected != test.expected {
				t.Errorf("%d of %d missing, want %d of %d: %v", len(got.Missing), got.Expected, test.missing,
					test.expected, got.Missing)
			}
		})
	}
}

// TestAdmitTenThousand holds that a large fleet is no other thing than a small one.
func TestAdmitTenThousand(t *testing.T) {
	var all []Candidate
	for i := range 10_000 {
		all = append(all, host(fmt.Sprintf("n%05d", i), i+1, func(h *Host) { h.Of = 10_001 }))
	}
	a := Admit(all, Rules{Now: day})
	if len(a.Hosts) != 10_000 || len(a.Missing) != 1 || a.Expected != 10_001 || len(a.Refused) != 0 {
		t.Errorf("%d count, %d are missing, %d are refused", len(a.Hosts), len(a.Missing), len(a.Refused))
	}
}
