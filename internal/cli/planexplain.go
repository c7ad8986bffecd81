package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/run/schedule"
	"tare/internal/sys/shell"
	"tare/internal/unit"
)

// explanation says in words what a plan does. What it says of time and space is what --dry-run says.
type explanation struct {
	*app
	plan    *plan.Plan
	width   int
	lacking []string // where there is too little space
	text    bytes.Buffer
}

func (x *explanation) write(ctx context.Context) error {
	p := x.plan
	for _, s := range []string{p.Name, p.Question} {
		if s != "" {
			x.at(0, s)
		}
	}
	available := x.available(ctx)
	x.heading("Environments")
	for i := range p.Targets {
		if e := &p.Targets[i]; e.Opens() {
			x.environment(e, available)
		}
	}
	if slices.ContainsFunc(p.Targets, func(e plan.Target) bool { return e.IsMount() }) {
		x.heading("Mounts")
		for i := range p.Targets {
			if e := &p.Targets[i]; e.IsMount() && e.Like == "" {
				x.mount(e, available)
			}
		}
	}
	if len(p.Beside) > 0 {
		x.heading("Neighbours")
		for i := range p.Beside {
			x.neighbour(&p.Beside[i])
		}
	}
	if c := p.Copies; c != nil {
		x.heading("Copies")
		x.at(2, fmt.Sprintf("Work is also done in %s copies at once, of each of %s. All copies of a trial begin "+
			"together. When each does far less than %s of what one does alone, more are not tried.",
			joinInts(c.Steps), strings.Join(c.Targets, ", "), percent(c.Floor)))
	}
	if e := p.Energy; e != nil {
		x.heading("Energy")
		x.at(2, "What the whole machine uses is read just before and just after the timed part of each trial ("+
			e.From+"). Where it is not told, the report says why.")
		if len(e.Meter) > 0 {
			x.at(2, "The meter is a command: "+shell.Quote(e.Meter...))
		}
	}
	x.heading("Work")
	for i := range p.Workloads {
		x.work(&p.Workloads[i])
	}
	x.heading("Comparison")
	x.comparison()
	x.heading("Course")
	x.course()
	x.heading("Size, as tare run --dry-run says it")
	x.forecast(&x.text, p, true)
	for _, l := range x.lacking {
		x.at(0, "no space   "+l)
	}
	if err := sayLogs(ctx, &x.text, p); err != nil {
		return err
	}
	x.heading("What stays")
	x.at(2, "The bundle: the folder that -o names, or a new one here. What the run made itself (processes, "+
		"containers, machines, mounts, files) is removed at its end, also after Ctrl-C; after kill -9, `tare clean` "+
		"removes it.")
	_, err := x.out.Write(x.text.Bytes())
	return err
}

func (x *explanation) heading(s string) {
	if x.text.Len() > 0 && !bytes.HasSuffix(x.text.Bytes(), []byte("\n\n")) {
		x.text.WriteByte('\n')
	}
	x.text.WriteString(s + "\n")
}

// at writes a paragraph that begins in a column, and goes on two columns further in.
func (x *explanation) at(column int, s string) {
	lines := wrap(printableLine(s), column+2, x.width)
	x.text.WriteString(strings.Repeat(" ", column) + strings.TrimLeft(lines, " ") + "\n")
}

// availability tells whether an environment, or a mount in it, can be had on this machine.
type availability func(s env.Spec, mount *env.Spec) (ok bool, why string)

func (x *explanation) environment(e *plan.Target, here availability) {
	info, ok := x.drivers.Lookup(e.Spec.Driver)
	if !ok {
		return // the plan's check has said so
	}
	role := ""
	switch {
	case e.Name == x.plan.Baseline:
		role = " (the baseline)"
	case x.plan.Offers(e.Name) && x.plan.Helps(e.Name):
		role = " (offers load; nothing is measured in it)"
	case x.plan.Helps(e.Name):
		role = " (for neighbours; nothing is measured in it)"
	}
	x.at(2, fmt.Sprintf("%s%s: %s: %s", e.Name, role, e.Text, firstSentence(info.Doc)))
	x.settings(e.Spec, info.Settings)
	x.here(here(e.Spec, nil))
}

func (x *explanation) mount(e *plan.Target, here availability) {
	of, ok := x.plan.Target(e.Of)
	if !ok {
		return
	}
	info, _ := x.drivers.Lookup(of.Spec.Driver)
	kind, ok := info.MountKind(e.Spec.Driver)
	if !ok {
		return
	}
	x.at(2, fmt.Sprintf("%s: %s: %s", e.Name, e.Text, firstSentence(kind.Doc)))
	x.settings(e.Spec, kind.Settings)
	x.here(here(of.Spec, &e.Spec))
}

// settings writes the meaning of each setting that is not left at its default.
func (x *explanation) settings(s env.Spec, known []env.Setting) {
	for _, name := range sortedKeys(s.Settings) {
		doc := ""
		if i := slices.IndexFunc(known, func(k env.Setting) bool { return k.Name == name }); i >= 0 {
			doc = ": " + firstSentence(known[i].Doc)
		}
		x.at(6, fmt.Sprintf("%s=%s%s", name, s.Settings[name], doc))
	}
}

func (x *explanation) here(ok bool, why string) {
	text := "ok"
	if !ok {
		text = "not available: " + why
	}
	x.at(6, "on this machine: "+text)
}

func (x *explanation) work(w *plan.Workload) {
	k, ok := x.kind(w.Kind)
	if !ok {
		return
	}
	name := w.Label
	if kind, _, _ := strings.Cut(w.Label, " "); kind != w.Kind {
		name += " (" + w.Kind + ")"
	}
	x.at(2, name+": "+firstSentence(k.Doc))
	var params []string
	for _, d := range k.Params {
		if v := w.Params[d.Name]; v != "" {
			params = append(params, d.Name+"="+v)
		}
	}
	if len(params) > 0 {
		x.at(6, "parameters: "+strings.Join(params, ", "))
	}
	m := k.Primary(w.Params)
	decides := fmt.Sprintf("decided by %s in %s, %s is better", m.Name, m.Unit, m.Better)
	if n := len(k.MetricsFor(w.Params)) - 1; n > 0 {
		decides += "; " + unit.Plural(n, "further figure")
	}
	x.at(6, decides)
	if len(w.Targets) > 0 {
		x.at(6, "only in "+strings.Join(w.Targets, ", "))
	}
	if k.Space != nil {
		if n := k.Space(w.Params); n > 0 {
			x.at(6, "files of up to "+unit.Format(float64(n), "B")+" in each target")
		}
	}
	x.workNeeds(k, w)
}

// neighbour writes the work of a neighbour, its place, and the targets beside it.
func (x *explanation) neighbour(n *plan.Neighbour) {
	k, ok := x.kind(n.Kind)
	if !ok {
		return
	}
	x.at(2, fmt.Sprintf("%s: %s: %s", n.Name, n.Label, firstSentence(k.Doc)))
	for _, target := range sortedKeys(n.In) {
		x.at(6, fmt.Sprintf("during each timed trial in %s it runs in %s", target, n.In[target]))
	}
}

func (x *explanation) workNeeds(k *workload.Kind, w *plan.Workload) {
	if k.NeedsPeer(w.Params) {
		x.at(6, "over the network, to a process that this run starts on this machine")
	}
	if k.Service != nil && k.Service(w.Params) != nil {
		x.at(6, "against a server that is started in each target and ends with the run")
	}
	if len(k.Needs.OS) > 0 {
		x.at(6, "only on "+strings.Join(k.Needs.OS, ", "))
	}
}

func (x *explanation) comparison() {
	p := x.plan
	var bases []string
	against := map[string][]string{} // base to its candidates
	for i := range p.Targets {
		e := &p.Targets[i]
		if e.Name == p.Baseline || p.Helps(e.Name) {
			continue
		}
		b := p.Against(e.Name)
		if against[b] == nil {
			bases = append(bases, b)
		}
		against[b] = append(against[b], e.Name)
	}
	for _, b := range bases {
		x.at(2, strings.Join(against[b], ", ")+" with "+b)
	}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; w.Baseline != "" {
			x.at(2, fmt.Sprintf("in %s, with %s instead of %s", w.Label, w.Baseline, p.Baseline))
		}
	}
	if len(bases) == 0 {
		x.at(2, p.Baseline+" with itself: there is no other target")
	}
	x.at(2, fmt.Sprintf("Differences below %s (%s for tail latencies) count as none; at %s all statements hold "+
		"together.", percent(p.Margin), percent(p.TailMargin), percent(1-p.Alpha)))
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

func (x *explanation) course() {
	p := x.plan
	if p.Cards {
		x.at(2, "First, files are tried out in every mount, for its semantics card.")
	}
	if p.Screen > 0 {
		x.at(2, fmt.Sprintf("After the first %d blocks of a workload only %d of its candidates go on: those that "+
			"differ most.", plan.ScreenBlocks, p.Screen))
	}
	frozen, own := 0, 0
	for i := range p.Workloads {
		if len(p.Workloads[i].Work) > 0 {
			frozen++
		}
		if d := p.Workloads[i].Trial; d > 0 && d != p.Trial {
			own++
		}
	}
	length := "at least " + seconds(p.Trial)
	if own > 0 {
		length += fmt.Sprintf(" (%s have a length of their own)", unit.Plural(own, "workload"))
	}
	if frozen == len(p.Workloads) {
		x.at(2, "The plan has the amount of work of each trial; nothing is calibrated.")
	} else {
		x.at(2, fmt.Sprintf("Calibration finds how much work a trial of %s does; from then on the amount is the same.",
			length))
	}
	x.at(2, "A block has one trial in each target, in a new random order, and a second one of what it is compared "+
		"with: the null control, which tells how well the host repeats itself. Every trial is written to disk before "+
		"the next.")
	if p.LeftOpen() {
		x.at(2, fmt.Sprintf("After the first round it is known how long it takes to open the environments again and "+
			"to warm up. If beginning %d sessions takes at most %.0f %% of the run, there are so many, with %s each; "+
			"the verdict then comes at the end and is about boots. Else there is one.", p.MostSessions,
			100*schedule.MostOpening, unit.Plural(p.BlocksIn(p.MostSessions), "block")))
	}
	if p.Sessions > 1 {
		x.at(2, fmt.Sprintf("The environments are opened %d times, with %s each; the verdict comes at the end and is "+
			"about boots.", p.Sessions, unit.Plural(p.MaxBlocks(), "block")))
	} else {
		x.at(2, fmt.Sprintf("After %s blocks the run looks at the figures. A workload ends when all of its cells are "+
			"decided, and at the latest after %s.", joinInts(p.Looks), unit.Plural(p.MaxBlocks(), "block")))
	}
	if p.Budget > 0 {
		x.at(2, fmt.Sprintf("After %s it ends in any case, and reports the figures so far.", seconds(p.Budget)))
	}
	if args := p.Slurm.Arguments(nil); len(args) > 0 {
		for i, a := range args {
			args[i] = quoteArg(a)
		}
		x.at(2, "As a fleet on Slurm, each node's job is asked for with "+strings.Join(args, " ")+".")
	}
}
