package fleetpage

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"tare/internal/judge/fleet"
	"tare/internal/show/look"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// hostPage is the data of the page of one host.
type hostPage struct {
	Name, Meta   string
	Unfinished   bool
	Odd          *oddHost
	Tested, Rate string
	Rows         []hostRow
	Lacking      []note
	Facts        []hostFact
	MoreFacts    int
	Commands     []string
	Others       int
}

// hostRow is a figure of the host among those of the others.
type hostRow struct {
	What, Value, Interval, Rel, Next, Place string
	Class, Sign, Word                       string
	Plot                                    *look.Plot
}

type hostFact struct {
	Name, Value, Usual string
	Share              string // of the hosts that have the same
	Differs            bool
}

// mostFacts bounds the facts on a host's page.
const mostFacts = 400

// Host writes the page of host i, in the order of the fleet. up leads to the page of all hosts.
func (p *Pages) Host(w io.Writer, i int, up string) error {
	c := &p.hosts[i]
	h := c.Host
	d := &hostPage{Name: proc.Line(h.Name), Unfinished: !h.Finished, Others: len(p.hosts) - 1,
		Rate: fmt.Sprintf("%.0f %%", 100*p.report.Rate)}
	meta := []string{unit.Plural(h.Trials, "trial"), "run " + h.RunID}
	if !h.Created.IsZero() {
		meta = append([]string{h.Created.UTC().Format(time.DateTime) + " UTC by its own clock"}, meta...)
	}
	if h.Of > 0 {
		meta = append(meta, fmt.Sprintf("part %d of %d", h.Number, h.Of))
	}
	if h.WaitedS > 0 {
		meta = append(meta, fmt.Sprintf("waited %s for another part", unit.Format(h.WaitedS, "s")))
	}
	d.Meta = proc.Line(strings.Join(meta, " · "))
	if p.report.Tested > 0 {
		d.Tested = unit.Plural(p.report.Tested, "test")
	}
	for i := range p.apart {
		if p.apart[i].Name == h.Name {
			d.Odd = &p.apart[i]
		}
	}
	p.figures(d, h)
	d.Facts, d.MoreFacts = p.facts(h)
	if file := p.packed(c); file != "" {
		d.Commands = []string{"tare report " + quote(file), "tare report " + quote(file) + " -o " +
			quote(strings.TrimSuffix(p.files[h.Name], ".html")+"-report.html"), "tare verify " + quote(file)}
	}
	f := &frame{Title: d.Name + " of " + p.title(), Host: true, Up: up}
	return render(w, f, "host", d)
}

// quote quotes a word for a shell, where it needs that.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+@%:,=") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// figures are the host's, each with where it stands.
func (p *Pages) figures(d *hostPage, h *fleet.Host) {
	all := p.places[h.Name]
	var values []float64
	for i, x := range all {
		if x != nil {
			low, high := relative(p.cells[i], x.Place)
			values = append(values, x.Against, low, high)
		}
	}
	line := look.NewAxis(values, look.PlotFrom, look.PlotTo)
	for i, x := range all {
		c := p.cells[i]
		if x == nil {
			why := "it has no value here"
			if at := slices.IndexFunc(h.Measures, func(m fleet.Measure) bool { return m.Key == c.Key }); at >= 0 {
				why = cmp.Or(h.Measures[at].Why, "its work was other than on most hosts")
			}
			d.Lacking = append(d.Lacking, note{proc.Line(what(&c.Key)), proc.Line(why)})
			continue
		}
		row := hostRow{What: what(&c.Key), Value: value(c, x.Value), Interval: interval(c, x.Low, x.High),
			Rel: signed(x.Against), Place: fmt.Sprintf("%d of %d", x.at+1, len(c.Order)), Word: string(x.Verdict)}
		row.Class, row.Sign = class(x.Place)
		if c.NextLow > 0 {
			row.Next = interval(c, c.NextLow, c.NextHigh)
		}
		low, high := relative(c, x.Place)
		row.Plot = line.PlotOf(row.Class, low, x.Against, high)
		d.Rows = append(d.Rows, row)
	}
}

// facts are the host's, beside the value that most hosts have. Peculiar ones come first.
func (p *Pages) facts(h *fleet.Host) (out []hostFact, more int) {
	usual := p.usual()
	for name, v := range h.Facts {
		u := usual[name]
		f := hostFact{Name: proc.Line(name), Value: proc.Line(v), Usual: proc.Line(u.value)}
		if n := u.count[v]; u.shared {
			f.Share = fmt.Sprintf("%d of %d", n, u.hosts)
			f.Differs = v != u.value
		} else {
			f.Usual = ""
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(x, y hostFact) int {
		if x.Differs != y.Differs {
			if x.Differs {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.Name, y.Name)
	})
	out = cut(out, mostFacts, &more)
	return out, more
}

// commonFact has the values of a fact in a fleet, with the number of hosts of each.
type commonFact struct {
	value  string // most have it
	shared bool   // at least half have it
	hosts  int    // that know the fact
	count  map[string]int
}

// usual returns the common value of each fact; it is counted once.
func (p *Pages) usual() map[string]*commonFact {
	if p.common != nil {
		return p.common
	}
	p.common = map[string]*commonFact{}
	for _, c := range p.hosts {
		for name, v := range c.Host.Facts {
			u := p.common[name]
			if u == nil {
				u = &commonFact{count: map[string]int{}}
				p.common[name] = u
			}
			u.hosts++
			u.count[v]++
		}
	}
	for _, u := range p.common {
		best := 0
		for v, n := range u.count {
			if n > best || n == best && v < u.value {
				u.value, best = v, n
			}
		}
		u.shared = 2*best >= u.hosts && best > 1
	}
	return p.common
}
