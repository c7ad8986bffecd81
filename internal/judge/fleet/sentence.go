package fleet

import (
	"fmt"
	"strconv"
	"strings"

	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// sentence has a cell's figure across the hosts. It names missing hosts.
func sentence(c *Cell, a *Admitted) string {
	where := fmt.Sprintf("across %d of %s", c.Hosts, unit.Plural(a.Expected, "host"))
	if c.Hosts == a.Expected {
		where = "across " + unit.Plural(c.Hosts, "host")
	}
	var s strings.Builder
	s.WriteString(said(c, where))
	if c.predicted() {
		fmt.Fprintf(&s, "; on a further host of the kind between %s and %s", c.value(c.NextLow), c.value(c.NextHigh))
	}
	s.WriteString(".")
	switch {
	case !c.IsRatio || c.Hosts == 0:
	case c.Verdict == record.Different:
		fmt.Fprintf(&s, " %d of %s show it by themselves.", c.Showing, unit.Plural(c.Hosts, "host"))
	case c.Showing > 0:
		fmt.Fprintf(&s, " By themselves, %d of %s show a difference that way.", c.Showing,
			unit.Plural(c.Hosts, "host"))
	}
	s.WriteString(spread(c))
	s.WriteString(odd(c))
	s.WriteString(lacking(c, a))
	return s.String()
}

// said is the claim itself.
func said(c *Cell, where string) string {
	what := metricOf(&c.Key, c.Primary)
	if c.Hosts == 0 {
		return fmt.Sprintf("%s: no figure %s", subject(c, what), where)
	}
	figure := c.value(c.Center)
	if c.Low > 0 {
		figure += fmt.Sprintf(" [%s, %s]", c.value(c.Low), c.value(c.High))
	}
	if !c.IsRatio {
		return fmt.Sprintf("%s in %s: %s %s", what, c.Target, figure, where)
	}
	switch c.Verdict {
	case record.Different:
		more := "more"
		if c.Center < 1 {
			more = "less"
		}
		return fmt.Sprintf("%s costs %s in %s than in %s: %s %s", what, more, c.Target, c.Baseline, figure, where)
	case record.Equivalent:
		return fmt.Sprintf("%s costs the same in %s as in %s: %s %s", what, c.Target, c.Baseline, figure, where)
	}
	return fmt.Sprintf("%s in %s against %s: %s %s (%s)", what, c.Target, c.Baseline, figure, where, c.Verdict)
}

func subject(c *Cell, what string) string {
	if c.IsRatio {
		return fmt.Sprintf("%s in %s against %s", what, c.Target, c.Baseline)
	}
	return fmt.Sprintf("%s in %s", what, c.Target)
}

// metricOf names the workload, and its metric unless that is the one that answers its question.
func metricOf(k *Key, primary bool) string {
	if primary {
		return k.Workload
	}
	return k.Workload + " " + k.Metric
}

// value writes a ratio, or a figure in its unit.
func (c *Cell) value(v float64) string {
	if c.IsRatio {
		return unit.Number(v)
	}
	return unit.Format(v, c.Unit)
}

// spread is a sentence with the standard deviations of hosts, boots and blocks; "" for one host.
func spread(c *Cell) string {
	if c.Hosts < 2 {
		return ""
	}
	text := fmt.Sprintf(" Hosts differ by %s", percent(c.HostSD))
	if c.BootSD > 0 {
		text += fmt.Sprintf(", boots of a host by %s", percent(c.BootSD))
	}
	if c.BlockSD > 0 {
		text += fmt.Sprintf(", blocks by %s", percent(c.BlockSD))
	}
	return text + " (standard deviations)."
}

func percent(share float64) string {
	switch v := 100 * share; {
	case v == 0:
		return "0 %"
	case v < 0.1:
		return "less than 0.1 %"
	case v < 10:
		return strconv.FormatFloat(v, 'g', 2, 64) + " %"
	default:
		return strconv.FormatFloat(v, 'f', 0, 64) + " %"
	}
}

// mostOdd bounds the hosts that a sentence names.
const mostOdd = 5

// odd names the hosts that lie apart.
func odd(c *Cell) string {
	var names []string
	n := 0
	for i := range c.Order {
		p := &c.Order[i]
		if !p.Apart {
			continue
		}
		if n++; n <= mostOdd {
			names = append(names, fmt.Sprintf("%s (%s times the others' cost)", p.Host, unit.Number(p.Against)))
		}
	}
	switch {
	case n == 0:
		return ""
	case n > mostOdd:
		names = append(names, fmt.Sprintf("%d more", n-mostOdd))
	}
	verb := "lie"
	if n == 1 {
		verb = "lies"
	}
	return fmt.Sprintf(" %s %s apart: %s.", unit.Plural(n, "host"), verb, strings.Join(names, ", "))
}

// lacking says which hosts are not in the figure.
func lacking(c *Cell, a *Admitted) string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(a.Expected-len(a.Hosts), "missing")
	add(c.Failed, "failed")
	add(c.Withheld, "withheld")
	add(c.Lacking, "without enough blocks")
	unfinished := 0
	for _, h := range a.Hosts {
		if !h.Host.Finished {
			unfinished++
		}
	}
	text := ""
	if len(parts) > 0 {
		text = fmt.Sprintf(" Not in it: %s.", strings.Join(parts, ", "))
	}
	switch {
	case unfinished == 1:
		text += " 1 host has not finished: what is there counts."
	case unfinished > 1:
		text += fmt.Sprintf(" %d hosts have not finished: what is there counts.", unfinished)
	}
	return text
}

// differing describes a fact of a host that lies apart.
func (f *Fact) differing() string {
	others := fmt.Sprintf("%d of the %d others have it", f.Others, f.OthersOf)
	usual := "most have " + f.Usual
	if isFigure(f.Name) {
		others = fmt.Sprintf("%d of the %d others are as far off", f.Others, f.OthersOf)
		usual = "their middle is " + f.Usual
	}
	text := fmt.Sprintf("%s %s: %s; %s", f.Name, f.Value, others, usual)
	switch {
	case f.LikeOf > 1 && f.Like == f.LikeOf:
		text += fmt.Sprintf("; all %d hosts apart on this side are like that", f.LikeOf)
	case f.LikeOf > 1:
		text += fmt.Sprintf("; %d of the %d hosts apart on this side are like that", f.Like, f.LikeOf)
	}
	return text
}

// against is a ratio in words: as a difference in percent, and from 10 on as a multiple.
func against(v float64) string {
	if v >= 10 {
		return unit.Number(v) + " times"
	}
	return fmt.Sprintf("%+.1f %%", 100*(v-1))
}

// predicted tells whether the cell has an interval for a further host.
func (c *Cell) predicted() bool { return c.Hosts >= stats.LeastNext && c.NextLow > 0 }
