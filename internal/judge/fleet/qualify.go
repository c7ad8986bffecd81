package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// QualificationSchema is the version of Qualification's JSON form.
const QualificationSchema = 1

// Standing is the verdict on a machine that is compared with its kind.
type Standing string

// The standings. A machine passes if all its cells do, and fails if any does.
const (
	Pass   Standing = "pass"        // it costs less than the tolerance more than its kind: shown at 95 %
	Fail   Standing = "fail"        // it costs more than its kind explains, and by more than the margin
	Unsure Standing = "cannot tell" // neither is shown
)

// FalseAlarms is the chance of failing a machine that is of its kind, over all cells, and the chance of passing one
// that costs more than the tolerance in any cell. Each is at most that.
const FalseAlarms = 0.05

// foundPower is the chance with which a cell's Finds is found.
const foundPower = 0.95

// Demand has the limits of a machine's excess over its kind.
type Demand struct {
	// Margin is the share by which it may cost more without failing, however sure that is; below 0 it is the plan's.
	Margin float64
	// Tolerance is the share by which it must not cost more if it is to pass.
	Tolerance float64
}

// Qualification is the comparison of a machine with its kind. Its JSON form is `tare qualify --format json`.
type Qualification struct {
	Schema    int             `json:"schema"`
	Verdict   Standing        `json:"verdict"`
	Sentence  string          `json:"sentence"`
	Host      string          `json:"host"`
	Machine   string          `json:"machine"`
	Bundle    string          `json:"bundle"`
	RunID     string          `json:"run_id"`
	Finished  bool            `json:"finished"`
	Plan      string          `json:"plan"` // plan.Identity of the fleet's plan
	Name      string          `json:"name,omitempty"`
	Build     string          `json:"build"`
	Hosts     int             `json:"hosts"`   // of the history, without this machine
	Earlier   []string        `json:"earlier"` // hosts of the history that are this machine: they do not count
	Alarms    float64         `json:"false_alarms_at_most"`
	Tolerance float64         `json:"tolerance"`
	Cells     []QualifiedCell `json:"cells"` // of those of the fleet that are primary
	// Needs is the number of blocks or hosts that would decide all cells that are open if their figures stay; nil where
	// none is open, or where neither blocks nor hosts would decide them.
	Needs    *Need            `json:"needs,omitempty"`
	Differs  []Fact           `json:"differs"` // facts that it does not share with most of its kind
	Warnings []record.Warning `json:"warnings"`
}

// QualifiedCell is one cell of a machine against its kind. Figures are in Unit, ratios of a ratio; 0 where there is
// none.
type QualifiedCell struct {
	Key
	IsRatio  bool     `json:"is_ratio"`
	Unit     string   `json:"unit,omitempty"`
	Better   string   `json:"better"`
	Verdict  Standing `json:"verdict"`
	Why      string   `json:"why,omitempty"` // of what cannot be told
	Needs    *Need    `json:"needs,omitempty"`
	Hosts    int      `json:"hosts"`      // of the kind that have a value
	LeftOut  int      `json:"left_out"`   // of them, those that lie apart: they are not the kind
	Blocks   int      `json:"blocks"`     // of this machine
	Value    float64  `json:"value"`      // of this machine
	Low      float64  `json:"low"`        // 95 % interval of this machine alone
	High     float64  `json:"high"`       //
	Center   float64  `json:"center"`     // of the kind
	NextLow  float64  `json:"next_low"`   // where a further host of the kind would lie, at 95 %
	NextHigh float64  `json:"next_high"`  //
	HostSD   float64  `json:"host_sd"`    // what hosts of the kind differ by, as a share
	Against  float64  `json:"against"`    // its cost divided by the kind's
	AtMost   float64  `json:"at_most"`    // Against is at most that, at 95 %
	Margin   float64  `json:"margin"`     // as a share
	Finds    float64  `json:"finds_from"` // a machine that costs so many times as much fails with a chance of 95 %
	P        float64  `json:"p"`          // of "it is of its kind, or costs no more than the margin more"
	PHolm    float64  `json:"p_holm"`     // with all cells counted in
}

// Need is the number of hosts or blocks that a decision lacks. At most one of Hosts and Blocks is set; where neither
// is, no number of them will do.
type Need struct {
	Hosts  int `json:"hosts,omitempty"`  // hosts in the history
	Blocks int `json:"blocks,omitempty"` // on this machine
}

// qualified is a cell on its way.
type qualified struct {
	QualifiedCell
	kind   *cell
	held   stats.Held
	judged bool
}

// Qualify holds a machine against its kind: the hosts of a fleet, as they were admitted. The machine may be one of
// them, back from repair: what it was before does not count.
func Qualify(history *Admitted, c Candidate, d Demand) *Qualification {
	h := c.Host
	kind, earlier := history.without(h)
	q := &Qualification{Schema: QualificationSchema, Host: h.Name, Machine: h.Machine, Bundle: c.Bundle, RunID: h.RunID,
		Finished: h.Finished, Plan: history.Plan, Build: h.Build, Hosts: len(kind.Hosts), Earlier: earlier,
		Alarms: FalseAlarms, Tolerance: d.Tolerance, Cells: []QualifiedCell{}, Differs: []Fact{},
		Warnings: []record.Warning{}}
	for _, other := range kind.Hosts {
		q.Name = cmp.Or(q.Name, other.Host.PlanName)
	}
	all := gather(kind)
	var cells []*qualified
	var p []float64
	for _, k := range all {
		if !k.Primary {
			continue
		}
		x := &qualified{kind: k, QualifiedCell: QualifiedCell{Key: k.Key, IsRatio: k.IsRatio, Unit: k.Unit,
			Better: k.Better, Hosts: k.Hosts, P: 1, PHolm: 1}}
		x.hold(h, d)
		cells, p = append(cells, x), append(p, x.P)
	}
	for i, adjusted := range stats.Holm(p, len(p)) {
		cells[i].PHolm = adjusted
		cells[i].decide(d, len(p))
	}
	q.conclude(cells)
	q.differing(h, kind, all, cells)
	q.Sentence = q.sentence()
	return q
}

// without is the fleet without a machine, and what it was called there.
func (a *Admitted) without(h *Host) (rest *Admitted, names []string) {
	rest, names = &Admitted{By: a.By, Plan: a.Plan, Build: a.Build}, []string{}
	for _, c := range a.Hosts {
		if a.key(c.Host) == a.key(h) {
			names = append(names, c.Host.Name)
			continue
		}
		rest.Hosts = append(rest.Hosts, c)
	}
	rest.Expected = len(rest.Hosts)
	return rest, names
}

// hold fills in how the machine stands in the cell.
func (x *qualified) hold(h *Host, d Demand) {
	k := x.kind
	if x.Margin = d.Margin; x.Margin < 0 {
		x.Margin = k.Margin
	}
	if k.Hosts > 0 {
		x.Center, x.NextLow, x.NextHigh, x.HostSD = k.Center, k.NextLow, k.NextHigh, k.HostSD
	}
	i := slices.IndexFunc(h.Measures, func(m Measure) bool { return m.Key == x.Key })
	if i < 0 {
		x.Why = "it was not measured on this machine"
		return
	}
	m := &h.Measures[i]
	if x.Blocks = m.Blocks; m.Why != "" {
		x.Why = m.Why
		return
	}
	if x.Why = k.unlike(m); x.Why != "" {
		return
	}
	u := stats.Measured{Center: m.Center, SE: m.SE, DF: m.DF}
	if h.Sessions < 2 {
		// On one boot its figure has in it what boots differ by, which the hosts' means over several boots have not.
		u.SE = math.Hypot(u.SE, math.Log1p(k.BootSD))
	}
	x.Value = k.shown(u.Center)
	half := stats.StudentFactor(FalseAlarms, u.DF) * u.SE
	x.Low, x.High = k.span(u.Center-half, u.Center+half)
	if x.held, x.judged = stats.Hold(k.units(), u); !x.judged {
		x.Why = fmt.Sprintf("%s of the kind: a verdict takes at least %d", unit.Plural(k.Hosts, "host"),
			stats.LeastApart)
		x.Needs = &Need{Hosts: stats.LeastApart}
		return
	}
	x.LeftOut = x.held.Out
	// The kind is what is left: those that lie apart are not what a healthy machine is like.
	x.Center, x.HostSD = k.shown(x.held.Center), finite(math.Expm1(x.held.Tau))
	half = stats.StudentFactor(FalseAlarms, x.held.DF) * math.Hypot(x.held.Tau, x.held.SE)
	x.NextLow, x.NextHigh = k.span(x.held.Center-half, x.held.Center+half)
	x.Against, x.AtMost = finite(math.Exp(x.held.Shift)), finite(math.Exp(x.held.Above(FalseAlarms)))
	x.P = x.held.P(math.Log1p(x.Margin))
}

// unlike says in what the work was other than on the hosts of the kind; "" where it was the same.
func (c *cell) unlike(m *Measure) string {
	for _, other := range c.measures {
		switch {
		case other.Work != m.Work:
			return "a trial has another number of units of work here, and these are not alike"
		case other.Checks != "" && m.Checks != "" && other.Checks != m.Checks:
			return "the checks of the work are others than on the hosts of the kind; look for other data or program " +
				"versions"
		}
	}
	return ""
}

// decide gives the cell its verdict, of so many cells.
func (x *qualified) decide(d Demand, cells int) {
	x.Verdict = Unsure
	if !x.judged {
		return
	}
	margin, alpha := math.Log1p(x.Margin), FalseAlarms/float64(cells)
	x.Finds = finite(math.Exp(x.held.Found(margin, alpha, foundPower)))
	switch {
	case x.PHolm <= FalseAlarms:
		x.Verdict = Fail
		return
	case passes(x.held, d):
		x.Verdict = Pass
		return
	}
	x.Needs = need(x.held, x.Blocks, func(h stats.Held) bool {
		return passes(h, d) || h.P(margin) <= alpha
	})
	by := percent(math.Expm1(max(x.held.Above(FalseAlarms), 0)))
	switch {
	case x.Needs.Blocks > 0:
		x.Why = fmt.Sprintf("it may cost up to %s more; if its figure stays, %d blocks decide", by, x.Needs.Blocks)
	case x.Needs.Hosts > 0:
		x.Why = fmt.Sprintf("it may cost up to %s more; if its figure stays, %d hosts of the kind decide", by,
			x.Needs.Hosts)
	case x.held.Shift < math.Log1p(d.Tolerance):
		x.Why = fmt.Sprintf("it may cost up to %s more, and not even %d blocks would tell: they differ too much", by,
			mostNeeded)
	default:
		x.Why = fmt.Sprintf("it costs %s more: too much to pass, but within what hosts of the kind differ "+
			"by, so neither more blocks nor more hosts decide", percent(math.Expm1(max(x.held.Shift, 0))))
	}
}

// passes tells whether it is shown that the machine costs less than the tolerance more.
func passes(h stats.Held, d Demand) bool { return h.Above(FalseAlarms) <= math.Log1p(d.Tolerance) }

// mostNeeded bounds what is asked for: more is no answer that anybody acts on.
const mostNeeded = 1000

// need looks for the fewest blocks, or else hosts, with which the same shift would be decided.
func need(h stats.Held, blocks int, decided func(stats.Held) bool) *Need {
	if blocks > 0 {
		for n := blocks + 1; n <= mostNeeded; n = max(n+1, n*21/20) {
			if decided(h.With(float64(n)/float64(blocks), 0)) {
				return &Need{Blocks: n}
			}
		}
	}
	for k := h.K + 1; k <= mostNeeded; k = max(k+1, k*21/20) {
		if decided(h.With(1, k)) {
			return &Need{Hosts: k}
		}
	}
	return &Need{}
}

// conclude makes one verdict of the cells'.
func (q *Qualification) conclude(cells []*qualified) {
	q.Verdict = Pass
	if len(cells) == 0 {
		q.Verdict = Unsure
		q.warn("no-history", "the history has no figure that this machine could be held against",
			"collect the bundles of at least five hosts")
	}
	var needs Need
	hopeless := false
	for _, x := range cells {
		q.Cells = append(q.Cells, x.QualifiedCell)
		switch {
		case x.Verdict == Fail:
			q.Verdict = Fail
		case x.Verdict == Unsure && q.Verdict == Pass:
			q.Verdict = Unsure
		}
		if x.Verdict != Unsure {
			continue
		}
		if x.Needs == nil || *x.Needs == (Need{}) {
			hopeless = true
			continue
		}
		needs.Hosts, needs.Blocks = max(needs.Hosts, x.Needs.Hosts), max(needs.Blocks, x.Needs.Blocks)
	}
	if needs != (Need{}) && !hopeless {
		q.Needs = &needs
	}
	if !q.Finished {
		q.warn("unfinished", "the run on this machine has not ended: what is there counts", "")
	}
	for _, name := range q.Earlier {
		q.warn("earlier", fmt.Sprintf("%s in the history is this machine: its past results do not count", name), "")
	}
}

func (q *Qualification) warn(code, text, remedy string) {
	q.Warnings = append(q.Warnings, record.Warning{Code: code, Text: text, Remedy: remedy})
}

// differing lists the facts that the machine does not share with its kind. Hosts of the history that lie apart as it
// does are looked at together with it: what they share is the more telling.
func (q *Qualification) differing(h *Host, kind *Admitted, all []*cell, cells []*qualified) {
	if len(h.Facts) == 0 || len(kind.Hosts) == 0 {
		return
	}
	findApart(all)
	odd, like := map[*Host]bool{}, []*Host{h}
	failed := func(k Key) bool {
		return slices.ContainsFunc(cells, func(x *qualified) bool { return x.Key == k && x.Verdict == Fail })
	}
	for _, c := range all {
		for i, other := range c.hosts {
			if !c.liesApart(i) {
				continue
			}
			odd[other] = true
			if c.apart[i].Shift > 0 && failed(c.Key) && !slices.Contains(like, other) {
				like = append(like, other)
			}
		}
	}
	var rest []*Host
	for _, c := range kind.Hosts {
		if !odd[c.Host] {
			rest = append(rest, c.Host)
		}
	}
	seen := map[string]bool{}
	for _, x := range cells {
		if q.Verdict == Fail && x.Verdict != Fail {
			continue
		}
		for _, f := range differs(h, like, rest, x.Target) {
			if !seen[f.Name] {
				seen[f.Name] = true
				q.Differs = append(q.Differs, f)
			}
		}
	}
	slices.SortFunc(q.Differs, func(x, y Fact) int {
		return cmp.Or(cmp.Compare(x.P, y.P), cmp.Compare(rank(x.Name), rank(y.Name)), cmp.Compare(x.Name, y.Name))
	})
	q.Differs = q.Differs[:min(len(q.Differs), mostFacts)]
}

// count is the number of cells with a standing.
func (q *Qualification) count(s Standing) (n int) {
	for i := range q.Cells {
		if q.Cells[i].Verdict == s {
			n++
		}
	}
	return n
}

// sentence says the verdict.
func (q *Qualification) sentence() string {
	of := fmt.Sprintf("%d of %s", q.count(q.Verdict), unit.Plural(len(q.Cells), "figure"))
	switch q.Verdict {
	case Fail:
		verb := "are"
		if q.count(Fail) == 1 {
			verb = "is"
		}
		return fmt.Sprintf("%s is not as good as its kind: %s %s worse than what hosts of the kind differ by, and by "+
			"more than the margin.", q.Host, of, verb)
	case Pass:
		return fmt.Sprintf("%s is as good as its kind: in %s it costs less than %s more than the kind.", q.Host, of,
			percent(q.Tolerance))
	}
	if len(q.Cells) == 0 {
		return fmt.Sprintf("Whether %s is as good as its kind cannot be told: there is no history.", q.Host)
	}
	s := fmt.Sprintf("Whether %s is as good as its kind cannot be told: %s neither fail nor pass.", q.Host, of)
	if q.count(Unsure) == 1 {
		s = strings.Replace(s, "neither fail nor pass", "neither fails nor passes", 1)
	}
	if n := q.Needs; n != nil {
		var parts []string
		if n.Hosts > 0 {
			parts = append(parts, fmt.Sprintf("%s in the history (now %d)", unit.Plural(n.Hosts, "host"), q.Hosts))
		}
		if n.Blocks > 0 {
			parts = append(parts, fmt.Sprintf("%s on this machine", unit.Plural(n.Blocks, "block")))
		}
		if len(parts) > 0 {
			s += " Needed, if the figures stay: " + strings.Join(parts, " and ") + "."
		}
	}
	return s
}
