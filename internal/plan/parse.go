package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/suggest"
)

// Tables are the drivers and kinds a plan may name.
type Tables struct {
	Drivers *env.Registry
	Kinds   []workload.Kind
	// Here, where set, gives the environments to compare when a plan names none, as specs; nil means the host alone.
	Here func() []string
	// Available, where set, tells whether an environment, or a mount in it (not nil), can work on this machine, or why
	// not. It is asked by plans that say missing: skip.
	Available func(environment env.Spec, mount *env.Spec) (ok bool, why string)
	// Declared, where set, lists the mounts that an environment has by itself.
	Declared func(environment env.Spec) ([]env.Spec, error)
	// LeftOut, where set, is told what such a plan leaves out.
	LeftOut func(target, why string)
}

func (t *Tables) kind(name string) *workload.Kind {
	for i := range t.Kinds {
		if t.Kinds[i].Name == name {
			return &t.Kinds[i]
		}
	}
	return nil
}

func (t *Tables) kindNames() []string {
	names := make([]string, len(t.Kinds))
	for i := range t.Kinds {
		names[i] = t.Kinds[i].Name
	}
	return names
}

// MostBlocks is the most blocks a plan may allow. The level of the looks is simulated, at a cost that grows with the
// square of their number.
const MostBlocks = 500

// MaxSessions is the most sessions a plan may ask for.
const MaxSessions = 100

// Bounds of a plan, so that no typing error asks for a year of work.
const (
	maxEnvironments = 64
	maxWorkloads    = 400
	maxLooks        = 20
	minTrial        = time.Millisecond
	maxTrial        = time.Hour
	maxBudget       = 30 * 24 * time.Hour
)

// draft is a plan as written: what was not written is zero and is filled in by resolve.
type draft struct {
	Plan
	blocks            int // most blocks; 0: not said
	blocksAt, looksAt pos
	sessionsAt        pos
	mostAt            pos
	screenAt          pos
	envAt, againAt    map[string]pos
	workAt            []pos
	baselineAt        pos
	assumed           bool // the baseline, which nobody named
	targetsAt         []pos
	beside            []neighbour
	copiesAt          pos
	gone              map[string]bool // targets that flags or this machine have left out
}

// Parse reads a plan file as users write it, or a resolved plan out of a bundle, and resolves it: defaults filled in,
// labels made, looks chosen, a seed drawn when none is given. file is only a name for messages. The error is of type
// Errors, with file, line and column for up to MaxErrors mistakes.
func Parse(file string, src []byte, t Tables) (*Plan, error) {
	p := &problems{}
	d := readDraft(file, src, &t, p)
	if p.any() {
		return nil, p.err()
	}
	d.resolve(&t, p)
	if p.any() {
		return nil, p.err()
	}
	return &d.Plan, nil
}

// Unmarshal reads the resolved plan that Marshal wrote. It knows no drivers and kinds, so that a bundle can be read
// by a build that has others; everything that a run drew or derived must be in the file.
func Unmarshal(file string, src []byte) (*Plan, error) {
	p := &problems{}
	d := readDraft(file, src, nil, p)
	if p.any() {
		return nil, p.err()
	}
	d.check(p)
	if p.any() {
		return nil, p.err()
	}
	return &d.Plan, nil
}

// field is one key of the plan file.
type field struct {
	name string
	read func(*reader, *draft, *node)
	doc  string
}

// fields lists the keys of a plan in the order Marshal writes them. The schema and the messages come from it.
func fields() []field {
	return []field{
		{"schema", (*reader).schema, "version of the plan file"},
		{"name", func(r *reader, d *draft, n *node) { d.Name = r.text(n, 200) }, "a name for the run"},
		{"question", func(r *reader, d *draft, n *node) { d.Question = r.text(n, 2000) },
			"the headline question, in words"},
		{"baseline", func(r *reader, d *draft, n *node) { d.Baseline, d.baselineAt = r.text(n, 100), n.at },
			"the environment that the others are compared with; host, or else the first"},
		{"seed", func(r *reader, d *draft, n *node) { d.Seed = r.seed(n) },
			"seed of the random order; without it, or with 0, one is drawn"},
		{"mode", (*reader).mode, "quick (trials of 0.3 s, up to 30 blocks) or full (1 s, up to 60 blocks)"},
		{"trial", func(r *reader, d *draft, n *node) { d.Trial = r.duration(n, minTrial, maxTrial) },
			"shortest length of a trial"},
		{"budget", func(r *reader, d *draft, n *node) { d.Budget = r.duration(n, 0, maxBudget) },
			"wall time for the whole run; 0 means no limit"},
		{"sessions", func(r *reader, d *draft, n *node) { d.Sessions, d.sessionsAt = r.whole(n, 1, MaxSessions), n.at },
			"how often the environments are opened; 1, and in the mode full as most_sessions says"},
		{"most_sessions", func(r *reader, d *draft, n *node) {
			d.MostSessions, d.mostAt = r.whole(n, 1, MaxSessions), n.at
		}, "how often the environments are opened where the run finds that affordable; 6 in the mode full, unless " +
			"sessions is given"},
		{"blocks", func(r *reader, d *draft, n *node) { d.blocks, d.blocksAt = r.whole(n, 1, MostBlocks), n.at },
			"largest number of blocks; drops later looks"},
		{"looks", (*reader).looks, "numbers of blocks at which the run decides, ascending"},
		{"alpha", func(r *reader, d *draft, n *node) { d.Alpha = r.share(n, 0.5) },
			"simultaneous error level over all looks"},
		{"look_alpha", func(r *reader, d *draft, n *node) { d.LookAlpha = r.share(n, 0.5) },
			"level of each look; derived, written into resolved plans only"},
		{"margin", func(r *reader, d *draft, n *node) { d.Margin = r.share(n, 1) },
			"smallest difference that matters, as 2% or 0.02"},
		{"tail_margin", func(r *reader, d *draft, n *node) { d.TailMargin = r.share(n, 1) },
			"smallest difference that matters in a tail latency"},
		{"precision", func(r *reader, d *draft, n *node) { d.Precision = r.share(n, 1) },
			"half-width at which an interval is precise enough"},
		{"missing", (*reader).missing, "what to do with environments and mounts that this machine does not have: " +
			"skip leaves them out; fail, the default, reports them as failed"},
		{"cards", (*reader).cards, "yes tests how files behave in each mount, for its semantics card"},
		{"energy", (*reader).energy, "where the energy of each trial is read from: auto, rapl, battery, or the " +
			"command of a meter"},
		{"screen", func(r *reader, d *draft, n *node) { d.Screen, d.screenAt = r.whole(n, 1, maxEnvironments), n.at },
			fmt.Sprintf("how many candidates go on after the first %d blocks of a workload: those that differ most",
				ScreenBlocks)},
		{"slurm", (*reader).slurm, "how tare fleet run --on slurm asks for the jobs: partition, account, time limit; " +
			"no part of what is measured"},
		{"environments", (*reader).environments, "the environments to compare: a name and how to open each"},
		{"beside", (*reader).beside, "loads that run in other environments while trials are timed (neighbours)"},
		{"copies", (*reader).copies, "do the work also in several copies of each environment at once, up to this many"},
		{"workloads", (*reader).workloads, "the work to run in each"},
	}
}

func fieldNames() []string {
	var names []string
	for _, f := range fields() {
		names = append(names, f.name)
	}
	return names
}

// reader reads fields; t is nil when kinds and drivers are not checked.
type reader struct {
	t *Tables
	p *problems
}

func readDraft(file string, src []byte, t *Tables, p *problems) *draft {
	d := &draft{envAt: map[string]pos{}, againAt: map[string]pos{}}
	root := readTree(file, src, p)
	if root == nil {
		return d
	}
	if root.kind != mapping {
		p.add(root.at, "a plan is a mapping with keys such as environments and workloads, not %s", root.kind)
		return d
	}
	r := &reader{t, p}
	d.blocksAt, d.looksAt, d.sessionsAt, d.baselineAt = root.at, root.at, root.at, root.at
	known := fields()
	values := map[string]*node{}
	for _, e := range root.keys {
		if !contains(fieldNames(), e.key) {
			p.add(e.at, "there is no key %q%s", e.key, suggest.MeantOrAll(e.key, fieldNames(), "there are:"))
			continue
		}
		values[e.key] = e.value
	}
	for _, f := range known {
		if v := values[f.name]; v != nil && v.kind != null {
			f.read(r, d, v)
		}
	}
	if n := values["workloads"]; n == nil || n.kind == null {
		p.add(root.at, "workloads is missing: list at least one, such as `workloads: [cpu.prime]`; `tare list "+
			"workloads` shows them")
	}
	return d
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// value returns a scalar's source text; anything else is a mistake.
func (r *reader) value(n *node, expected string) (string, bool) {
	if n.kind != scalar {
		hint := ""
		if n.kind == null && n.text == "null" { // the name of a workload and of one of syscall's calls
			hint = `, which is what null means in YAML; write "null" for the word`
		}
		r.p.add(n.at, "expected %s, found %s%s", expected, n.kind, hint)
		return "", false
	}
	return n.text, true
}

func (r *reader) text(n *node, limit int) string {
	s, ok := r.value(n, "text")
	if ok && len(s) > limit {
		r.p.add(n.at, "this text has %d bytes; at most %d fit here", len(s), limit)
	}
	return s
}

func (r *reader) whole(n *node, low, high int) int {
	expected := fmt.Sprintf("a whole number from %d to %d", low, high)
	s, ok := r.value(n, expected)
	if !ok {
		return low
	}
	v, err := strconv.Atoi(strings.ReplaceAll(s, "_", ""))
	if err != nil || v < low || v > high {
		r.p.add(n.at, "expected %s, found %q", expected, s)
		return low
	}
	return v
}

func (r *reader) seed(n *node) uint64 {
	s, ok := r.value(n, "a whole number")
	if !ok {
		return 0
	}
	v, err := strconv.ParseUint(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil {
		r.p.add(n.at, "expected a whole number from 0 to 18446744073709551615, found %q", s)
	}
	return v
}

func (r *reader) duration(n *node, low, high time.Duration) time.Duration {
	const expected = "a duration such as 300ms, 10m or 1h30m"
	s, ok := r.value(n, expected)
	if !ok {
		return low
	}
	v, err := time.ParseDuration(s)
	switch {
	case err != nil:
		r.p.add(n.at, "expected %s, found %q%s", expected, s, bareNumber(s))
		return low
	case v < low || v > high:
		r.p.add(n.at, "%s is out of range: expected a duration from %v to %v", s, low, high)
		return low
	}
	return v
}

// bareNumber helps with the most common mistake in a duration.
func bareNumber(s string) string {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return fmt.Sprintf("; did you mean %q?", s+"s")
	}
	return ""
}

// share reads 2% or 0.02: more than 0, at most high.
func (r *reader) share(n *node, high float64) float64 {
	const expected = "a share such as 2% or 0.02"
	s, ok := r.value(n, expected)
	if !ok {
		return high
	}
	v, err := parseShare(s)
	percent := strings.HasSuffix(strings.TrimSpace(s), "%")
	if err != nil || !(v > 0) || v > high {
		hint := ""
		if err == nil && !percent && v > high {
			hint = fmt.Sprintf("; did you mean %q?", s+"%")
		}
		r.p.add(n.at, "expected %s, more than 0 and at most %g%%, found %q%s", expected, high*100, s, hint)
		return high
	}
	return v
}

// parseShare reads a share such as 0.02 or 2%.
func parseShare(s string) (float64, error) {
	num, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if percent {
		v /= 100
	}
	return v, err
}

func (r *reader) schema(d *draft, n *node) {
	d.Schema = r.whole(n, 1, 1<<30)
	if d.Schema > Schema {
		r.p.add(n.at, "this plan has schema %d, but this tare reads only up to %d; use a newer tare", d.Schema, Schema)
	}
}

func (r *reader) mode(d *draft, n *node) {
	s, ok := r.value(n, "quick or full")
	if !ok {
		return
	}
	d.Mode = Mode(s)
	if d.Mode != Quick && d.Mode != Full {
		r.p.add(n.at, "mode %q is neither quick nor full%s", s, suggest.DidYouMean(s, []string{"quick", "full"}))
	}
}

func (r *reader) missing(d *draft, n *node) {
	s, ok := r.value(n, "skip or fail")
	switch {
	case !ok || s == "fail":
	case s == Skip:
		d.Missing = Skip
	default:
		r.p.add(n.at, "missing %q is neither skip nor fail%s", s, suggest.DidYouMean(s, []string{Skip, "fail"}))
	}
}

func (r *reader) cards(d *draft, n *node) {
	s, ok := r.value(n, "yes or no")
	switch {
	case !ok || s == "no" || s == "false":
	case s == "yes" || s == "true":
		d.Cards = true
	default:
		r.p.add(n.at, "expected yes or no, found %q", s)
	}
}

func (r *reader) looks(d *draft, n *node) {
	d.looksAt = n.at
	if n.kind != list || len(n.items) == 0 || len(n.items) > maxLooks {
		r.p.add(n.at, "expected 1 to %d numbers of blocks in ascending order, such as [10, 15, 20]", maxLooks)
		return
	}
	last := 0
	for _, item := range n.items {
		v := r.whole(item, 1, MostBlocks)
		if v <= last && item.kind == scalar {
			r.p.add(item.at, "looks must ascend: %d comes after %d", v, last)
		}
		last = v
		d.Looks = append(d.Looks, v)
	}
}
