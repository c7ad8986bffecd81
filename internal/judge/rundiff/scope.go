package rundiff

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tare/internal/record"
)

// host returns what is known of the machine on which the controller ran: what a local environment saw of it.
func host(s *Side) (*record.Facts, bool) {
	for i := range s.Plan.Targets {
		e := &s.Plan.Targets[i]
		if !e.IsHost() {
			continue
		}
		for j := range s.Result.Targets {
			if t := &s.Result.Targets[j]; t.Name == e.Name && t.Inside.OS != "" {
				return &t.Inside, true
			}
		}
	}
	return nil, false
}

func hostText(s *Side) string {
	f, ok := host(s)
	if !ok {
		return ""
	}
	parts := []string{}
	for _, p := range []string{f.Hostname, f.CPU, f.Kernel} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ", ")
}

// sameHost goes by what does not change while a machine stays the same: its name, processor, memory, product. It is a
// guess in so far as two machines of one make may carry one name.
func sameHost(a, b *Side) Answer {
	x, ok := host(a)
	y, too := host(b)
	if !ok || !too {
		return Unknown
	}
	near := func(p, q int64) bool { return math.Abs(float64(p-q)) <= 0.02*float64(max(p, q)) }
	if x.OS != y.OS || x.Arch != y.Arch || x.CPU != y.CPU || x.Cores != y.Cores ||
		!near(x.MemoryBytes, y.MemoryBytes) ||
		x.Extra["machine.product"] != y.Extra["machine.product"] {
		return No
	}
	switch {
	case a.Redacted || b.Redacted:
		return Unknown // one pseudonym may stand for two names
	case x.Hostname != y.Hostname:
		return No
	}
	return Yes
}

// bootSlack is by how much two reckonings of one boot time may differ: the facts are taken some time after a run began.
const bootSlack = 5 * time.Minute

func sameBoot(a, b *Side) Answer {
	if sameHost(a, b) == No {
		return No
	}
	x, ok := bootTime(a)
	y, too := bootTime(b)
	switch {
	case !ok || !too || sameHost(a, b) == Unknown:
		return Unknown
	case x.Sub(y).Abs() > bootSlack:
		return No
	}
	return Yes
}

func bootTime(s *Side) (time.Time, bool) {
	f, ok := host(s)
	if !ok {
		return time.Time{}, false
	}
	up, err := strconv.ParseFloat(f.Extra["kernel.uptime_s"], 64)
	if err != nil || !(up >= 0) || up > 1e9 {
		return time.Time{}, false
	}
	return s.Created.Add(-time.Duration(up * float64(time.Second))), true
}

// scope is the part of every sentence that says how far a claim reaches.
func scope(from, to *Side, p *Pair) string {
	switch {
	case from.Result.Run.ID == to.Result.Run.ID:
		return "one run against itself"
	case p.SameHost == No:
		return "two machines"
	case p.SameHost == Unknown:
		return "two runs; it is not known whether on one machine"
	case p.SameBoot == Yes:
		return "two runs on one boot of one machine (same host facts)"
	case day(from) != day(to):
		return "two days on one machine (same host facts)" + boots(p)
	}
	return "two runs on one machine (same host facts)" + boots(p)
}

func boots(p *Pair) string {
	if p.SameBoot == No {
		return ", booted in between"
	}
	return ""
}

func day(s *Side) string { return s.Created.UTC().Format(time.DateOnly) }

// Sentence has a cell's change, with its scope.
func Sentence(c *Cell, scope string) string {
	what := fmt.Sprintf("%s in %s", c.Workload, c.Target)
	change := "a factor of " + interval(c.Center, c.Low, c.High)
	switch c.Verdict {
	case record.Different:
		word := "more"
		if c.Center < 1 {
			word = "less"
		}
		return fmt.Sprintf("%s costs %s against %s than before: its ratio changed by %s, %s", what, word, c.Baseline,
			change, scope)
	case record.Equivalent:
		return fmt.Sprintf("%s costs the same against %s as before: %s, %s", what, c.Baseline, change, scope)
	case record.Measured:
		return fmt.Sprintf("%s: its ratio changed by %s, %s", what, change, scope)
	}
	return fmt.Sprintf("%s: %s", what, strings.ToLower(string(c.Verdict)))
}
