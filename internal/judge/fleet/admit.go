package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/record"
	"tare/internal/stats"
)

// Candidate is a bundle that may be counted: what it says, or why it cannot be read.
type Candidate struct {
	Bundle  string   `json:"bundle"` // as the user calls it
	Host    *Host    `json:"host,omitempty"`
	Refused *Refusal `json:"refused,omitempty"`
	At      int      `json:"-"` // for the caller of Admit, which leaves it as it is
	File    string   `json:"-"` // where the bundle is now, for readers; as the caller likes
}

// Refusal is a bundle that is not counted.
type Refusal struct {
	Bundle string `json:"bundle"`
	Host   string `json:"host,omitempty"` // whose it is, where that is known
	Code   string `json:"code"`           // stable, in small letters: see the constants
	Text   string `json:"text"`           // why, in plain English
	Remedy string `json:"remedy,omitempty"`
}

// The codes of refusals.
const (
	NotThere   = "not-there"   // there is nothing of that name
	Unreadable = "unreadable"  // no bundle, or none that this build reads
	Damaged    = "damaged"     // cut short, or changed after it was written
	StillRuns  = "still-runs"  // its run goes on
	OtherPlan  = "other-plan"  // it is of another plan than most
	OtherBuild = "other-build" // it was made by another build than most
	SameHost   = "same-host"   // another bundle of that machine counts
	SameBundle = "same-bundle" // given twice
	SelfTest   = "self-test"   // its figures are made up
)

// By is the property by which hosts are told apart.
type By string

// The ways of telling hosts apart. By name is for nodes that share a machine, and for machines that share an identity.
const (
	ByMachine By = "machine"
	ByName    By = "name"
)

// Rules say which bundles count.
type Rules struct {
	By By
	// Plan and Build are those that a bundle must be of; "" for the ones of most bundles.
	Plan  string
	Build string
	// Expected are the names of the hosts that should be there; empty where they are not known.
	Expected []string
	// Parts is the number of hosts that should be there, where that is known otherwise; 0 where it is not.
	Parts int
	Now   time.Time // by the clock of the machine that collects
}

// Admitted are the hosts of a fleet.
type Admitted struct {
	Plan     string           `json:"plan"` // plan.Identity
	Build    string           `json:"build"`
	By       By               `json:"by"`
	Hosts    []Candidate      `json:"hosts"` // in the order of their numbers and names; each counts once
	Refused  []Refusal        `json:"refused"`
	Missing  []string         `json:"missing"`  // names, or "part 3 of 8"
	Expected int              `json:"expected"` // hosts that should be there; at least those that are
	Warnings []record.Warning `json:"warnings"`
}

// Admit decides which bundles count. The order in which they are given decides nothing.
func Admit(all []Candidate, rules Rules) *Admitted {
	a := &Admitted{By: cmp.Or(rules.By, ByMachine), Hosts: []Candidate{}, Refused: []Refusal{}, Missing: []string{},
		Warnings: []record.Warning{}}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(x, y Candidate) int { return cmp.Compare(x.Bundle, y.Bundle) })
	var sound []Candidate
	for _, c := range all {
		switch {
		case c.Refused != nil:
			a.Refused = append(a.Refused, *c.Refused)
		case c.Host != nil:
			sound = append(sound, c)
		}
	}
	a.Plan = cmp.Or(rules.Plan, most(sound, func(h *Host) string { return h.Plan }))
	sound = a.only(sound, OtherPlan, func(h *Host) string {
		if h.Plan == a.Plan {
			return ""
		}
		return fmt.Sprintf("it ran plan %.12s, and the fleet runs %.12s", h.Plan, a.Plan)
	}, "run the same plan on it; set a seed in the plan, or each run draws its own, which makes another plan")
	a.Build = cmp.Or(rules.Build, most(sound, func(h *Host) string { return h.Build }))
	sound = a.only(sound, OtherBuild, func(h *Host) string {
		if h.Build == a.Build {
			return ""
		}
		return fmt.Sprintf("it was made by build %.20s and the fleet's is %.20s", h.Build, a.Build)
	}, "install the same tare on all hosts: builds may do other work under the same name")
	a.once(sound)
	a.names()
	a.clocks(rules.Now)
	a.missing(rules)
	return a
}

// most is the most frequent value of the hosts; of two that are equally frequent the smaller one, so that the answer
// does not depend on the order.
func most(all []Candidate, of func(*Host) string) string {
	count := map[string]int{}
	for _, c := range all {
		count[of(c.Host)]++
	}
	best := ""
	for _, v := range slices.Sorted(maps.Keys(count)) {
		if best == "" || count[v] > count[best] {
			best = v
		}
	}
	return best
}

func (a *Admitted) refuse(c Candidate, code, text, remedy string) {
	a.Refused = append(a.Refused, Refusal{Bundle: c.Bundle, Host: c.Host.Name, Code: code, Text: text, Remedy: remedy})
}

// only keeps those of which nothing is wrong.
func (a *Admitted) only(all []Candidate, code string, wrong func(*Host) string, remedy string) (kept []Candidate) {
	for _, c := range all {
		if text := wrong(c.Host); text != "" {
			a.refuse(c, code, text, remedy)
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// key is the text by which a host is told apart.
func (a *Admitted) key(h *Host) string {
	if a.By == ByName || h.Machine == "" {
		return "name " + strings.ToLower(h.Name)
	}
	return "machine " + h.Machine
}

// once counts each host once: by the bundle that says most.
func (a *Admitted) once(all []Candidate) {
	of := map[string][]Candidate{}
	for _, c := range all {
		k := a.key(c.Host)
		of[k] = append(of[k], c)
	}
	for _, k := range slices.Sorted(maps.Keys(of)) {
		list := of[k]
		slices.SortStableFunc(list, func(x, y Candidate) int {
			p, q := x.Host, y.Host
			return cmp.Or(-compareBool(p.Finished, q.Finished), -cmp.Compare(p.Trials, q.Trials),
				-p.Created.Compare(q.Created), cmp.Compare(p.RunID, q.RunID), cmp.Compare(x.Bundle, y.Bundle))
		})
		a.Hosts = append(a.Hosts, list[0])
		for _, c := range list[1:] {
			if c.Host.RunID == list[0].Host.RunID {
				a.refuse(c, SameBundle, fmt.Sprintf("it holds run %s, and so does %s, which is counted", c.Host.RunID,
					list[0].Bundle), "")
				continue
			}
			a.refuse(c, SameHost, a.sameText(c.Host, list[0]), sameRemedy(a.By))
		}
	}
	slices.SortStableFunc(a.Hosts, func(x, y Candidate) int {
		return cmp.Or(cmp.Compare(x.Host.Number, y.Host.Number), cmp.Compare(x.Host.Name, y.Host.Name),
			cmp.Compare(x.Bundle, y.Bundle))
	})
}

func (a *Admitted) sameText(h *Host, counted Candidate) string {
	if a.By == ByMachine && !strings.EqualFold(h.Name, counted.Host.Name) {
		return fmt.Sprintf("%s is the same machine as %s, whose bundle %s counts", h.Name, counted.Host.Name,
			counted.Bundle)
	}
	return fmt.Sprintf("%s has been measured twice; its bundle %s counts", h.Name, counted.Bundle)
}

func sameRemedy(by By) string {
	if by == ByName {
		return ""
	}
	return "a host counts once; if these are two machines, or nodes that are to count although they share one, " +
		"collect with --by name"
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// names makes names unique: two machines may have one, and some file systems and readers do not tell capitals.
func (a *Admitted) names() {
	count := map[string]int{}
	spelt := map[string]map[string]bool{}
	for _, c := range a.Hosts {
		low := strings.ToLower(c.Host.Name)
		count[low]++
		if spelt[low] == nil {
			spelt[low] = map[string]bool{}
		}
		spelt[low][c.Host.Name] = true
	}
	seen := map[string]int{}
	for i := range a.Hosts {
		low := strings.ToLower(a.Hosts[i].Host.Name)
		if count[low] < 2 {
			continue
		}
		seen[low]++
		h := *a.Hosts[i].Host
		h.Name = cmp.Or(h.Name, "unnamed") + "#" + strconv.Itoa(seen[low])
		a.Hosts[i].Host = &h
	}
	for _, low := range slices.Sorted(maps.Keys(count)) {
		switch n := count[low]; {
		case n > 1 && len(spelt[low]) > 1:
			a.warn("names-differ-in-case", fmt.Sprintf("%d machines are called %s, in other capitals; they are told "+
				"apart by numbers", n, strings.Join(slices.Sorted(maps.Keys(spelt[low])), " and ")),
				"give each host a name of its own with --host")
		case n > 1:
			a.warn("same-name", fmt.Sprintf("%d machines are called %q; they are told apart by numbers", n, low),
				"give each host a name of its own with --host")
		}
	}
}

func (a *Admitted) warn(code, text, remedy string) {
	a.Warnings = append(a.Warnings, record.Warning{Code: code, Text: text, Remedy: remedy})
}

// Errors of a clock beyond which it is told.
const (
	aheadAtMost = 24 * time.Hour      // of the collecting machine's clock: no zone explains more
	farAtMost   = 90 * 24 * time.Hour // from the middle one of the hosts
)

// clocks tells hosts whose calendar is wrong. Their figures are none the worse: durations are not taken by it.
func (a *Admitted) clocks(now time.Time) {
	var at []float64
	for _, c := range a.Hosts {
		at = append(at, float64(c.Host.Created.Unix()))
	}
	middle := stats.Median(at)
	for _, c := range a.Hosts {
		h := c.Host
		from := "the other hosts'"
		off := time.Duration(float64(h.Created.Unix())-middle) * time.Second
		if len(a.Hosts) < 3 {
			off = 0
		}
		if ahead := h.Created.Sub(now); !now.IsZero() && ahead > aheadAtMost {
			off, from = ahead, "this machine's"
		}
		if off.Abs() > farAtMost || from == "this machine's" {
			a.warn("clock-off", fmt.Sprintf("%s began on %s by its own clock, %.0f days from %s: its calendar is "+
				"wrong", h.Name, h.Created.UTC().Format(time.DateOnly), off.Abs().Hours()/24, from),
				"set its clock; the figures do not depend on it")
		}
	}
}

// mostNamed bounds the parts that are named as missing.
const mostNamed = 10_000

// notThere are the names of those that are not there, capitals aside. Where names do not tell hosts apart, two that
// differ only in capitals are two hosts, and each is there for itself.
func notThere(expected, names []string, by By) (missing []string) {
	exact, folded := map[string]int{}, map[string]int{}
	for _, n := range names {
		exact[n]++
		folded[strings.ToLower(n)]++
	}
	var open []string
	for _, n := range expected {
		low := strings.ToLower(n)
		switch {
		case by == ByName && folded[low] > 0:
		case by != ByName && exact[n] > 0:
			exact[n]--
			folded[low]--
		default:
			open = append(open, n)
		}
	}
	for _, n := range open {
		if low := strings.ToLower(n); by != ByName && folded[low] > 0 {
			folded[low]--
			continue
		}
		missing = append(missing, n)
	}
	return missing
}

// missing says which hosts should be there and are not.
func (a *Admitted) missing(rules Rules) {
	parts := rules.Parts
	there, names := map[int][]string{}, []string{}
	unnumbered := 0
	for _, c := range a.Hosts {
		if c.Host.Of > 0 {
			parts = max(parts, c.Host.Of)
			there[c.Host.Number] = append(there[c.Host.Number], c.Host.Name)
		} else {
			unnumbered++
		}
		name, _, _ := strings.Cut(c.Host.Name, "#")
		names = append(names, name)
	}
	a.Expected = len(a.Hosts)
	switch {
	case len(rules.Expected) > 0:
		a.Missing = append(a.Missing, notThere(rules.Expected, names, a.By)...)
		a.Expected = len(a.Hosts) + len(a.Missing)
	case parts > 0 && len(there) > 0:
		lacking := parts - len(there)
		for n := 1; n <= parts && len(a.Missing) < min(lacking, mostNamed); n++ {
			if len(there[n]) == 0 {
				a.Missing = append(a.Missing, fmt.Sprintf("part %d of %d", n, parts))
			}
		}
		if more := lacking - len(a.Missing); more > 0 {
			a.Missing = append(a.Missing, fmt.Sprintf("%d more parts", more))
		}
		a.Expected = len(a.Hosts) + lacking
	case parts > len(a.Hosts):
		a.Expected = parts
		a.Missing = append(a.Missing, fmt.Sprintf("%d of %d, whose names are not known", parts-len(a.Hosts), parts))
	}
	for _, n := range slices.Sorted(maps.Keys(there)) {
		if list := there[n]; len(list) > 1 {
			a.warn("part-twice", fmt.Sprintf("part %d was carried out by %d hosts, %s: all of them count", n, len(list),
				strings.Join(list, " and ")), "a requeued part goes on only on the host where it began")
		}
	}
	if unnumbered > 0 && len(there) > 0 {
		a.warn("unmarked", fmt.Sprintf("%d hosts have no part: their bundles were made by runs of their own",
			unnumbered), "")
	}
	for _, c := range a.Hosts {
		if s := c.Host.WaitedS; s >= 1 {
			a.warn("waited", fmt.Sprintf("%s waited %.0f s for another part on the same machine", c.Host.Name,
				s), "")
		}
	}
}
