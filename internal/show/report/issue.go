package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// Bounds of an evidence block, which is read at a glance: how many things each of its lines names, and how long their
// texts may be, in characters.
const (
	mostIssueCells   = 6
	mostIssueNotes   = 4
	mostIssueTargets = 6
	mostIssueWork    = 4
	longestIssueName = 80
	longestIssueNote = 500
	longestIssuePlan = 16 << 10 // bytes
)

// Issue writes evidence for the people who can mend a finding: about ten lines of Markdown with the figures, the
// verdicts and their certainty, the versions and settings, and the command that repeats the run. The rest is in the
// other forms and in the bundle.
func Issue(w io.Writer, m *Model) error {
	d := &issue{newMarkdown(m)}
	d.line("### tare: %s", markdownText(unit.Cut(m.title(), longestIssueNote)))
	d.line("")
	d.measured()
	d.found()
	d.sure()
	d.versions()
	d.settings()
	d.remedies()
	d.repeat()
	if _, err := w.Write(d.markdown.out.Bytes()); err != nil {
		return fmt.Errorf("write evidence block: %w", err)
	}
	return nil
}

// issue is one rendering.
type issue struct{ *markdown }

// item writes a line of the list, or below its last line.
func (d *issue) item(name, text string) { d.line("- **%s:** %s", name, text) }
func (d *issue) below(text string)      { d.line("  - %s", text) }

// codeName makes a name a code span, within which nothing is markup.
func codeName(s string) string {
	if s = unit.Cut(clean(s), longestIssueName); strings.TrimSpace(s) == "" {
		return "?"
	}
	return code(s)
}

// some joins the first of some texts, and says how many more there are.
func some(texts []string, most int) string {
	if len(texts) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:most], ", "), len(texts)-most)
	}
	return strings.Join(texts, ", ")
}

func (d *issue) measured() {
	var places, work []string
	for i := range d.Targets {
		t := &d.Targets[i]
		place := codeName(t.Name)
		if spec := clean(t.Spec); spec != "" && spec != clean(t.Name) {
			place += " (" + codeName(spec) + ")"
		}
		places = append(places, place)
	}
	for i := range d.Rows {
		if r := &d.Rows[i]; r.Primary {
			work = append(work, codeName(r.Workload))
		}
	}
	d.item("Measured", fmt.Sprintf("the same work, in turn, in %s: %s", some(places, mostIssueTargets),
		some(work, mostIssueWork)))
}

// decided are the cells with a verdict, the farthest from 1 first; undecided counts the others by verdict.
func (d *issue) decided() (cells []*verdict.Cell, undecided map[record.Verdict]int) {
	undecided = map[record.Verdict]int{}
	for i := range d.Cells {
		c := &d.Cells[i]
		if !c.Primary || c.Target == c.Baseline {
			continue
		}
		switch c.Verdict {
		case record.Different, record.Equivalent, record.Measured:
			cells = append(cells, c)
		default:
			undecided[cmp.Or(c.Verdict, record.Inconclusive)]++
		}
	}
	slices.SortStableFunc(cells, func(a, b *verdict.Cell) int {
		return cmp.Compare(math.Abs(math.Log(b.Ratio.Center)), math.Abs(math.Log(a.Ratio.Center)))
	})
	return cells, undecided
}

func (d *issue) found() {
	cells, undecided := d.decided()
	all := len(cells)
	var open []string
	for _, v := range []record.Verdict{record.Inconclusive, record.Withheld, record.Failed} {
		if n := undecided[v]; n > 0 {
			open = append(open, fmt.Sprintf("%d %s", n, v))
			all += n
		}
	}
	switch {
	case all == 0:
		d.item("Found", "nothing to compare.")
		return
	case len(cells) == 0:
		d.item("Found", fmt.Sprintf("none of %s is decided (%s): this is no evidence of a difference yet.",
			unit.Plural(all, "cell"), strings.Join(open, ", ")))
		return
	}
	text := fmt.Sprintf("%d of %s decided", len(cells), unit.Plural(all, "cell"))
	if len(open) > 0 {
		text += " (" + strings.Join(open, ", ") + ")"
	}
	d.item("Found", text+"; a ratio is one of costs, 2.00 is twice the time per operation.")
	shown := cells[:min(len(cells), mostIssueCells)]
	for _, c := range shown {
		d.below(d.cellText(c))
	}
	if rest := cells[len(shown):]; len(rest) > 0 {
		count := map[record.Verdict]int{}
		for _, c := range rest {
			count[c.Verdict]++
		}
		var parts []string
		for _, v := range []record.Verdict{record.Different, record.Equivalent, record.Measured} {
			if n := count[v]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, v))
			}
		}
		d.below(fmt.Sprintf("and %d more: %s", len(rest), strings.Join(parts, ", ")))
	}
}

// cellText has the verdict of a cell, with the figures of both sides.
func (d *issue) cellText(c *verdict.Cell) string {
	what := markdownText(string(c.Verdict))
	switch {
	case signOf(c) == unconfirmed:
		what += ", beyond the margin but not significant among so many"
	case c.Verdict == record.Equivalent:
		what += " within " + percentText(c.SameMargin)
	}
	text := fmt.Sprintf("%s, %sx", what, ratioText(c.Ratio.Center))
	if interval := bracket(c.Low, c.High, c.Level > 0); interval != "" {
		text += " " + markdownText(interval)
	}
	text += fmt.Sprintf(": %s against %s in %s", codeName(c.Target), codeName(c.Baseline), codeName(c.Workload))
	if c.Center > 0 && c.BaselineCenter > 0 {
		u := clean(c.Unit)
		text += " " + markdownText(fmt.Sprintf("(%s against %s)", unit.Format(c.Center, u),
			unit.Format(c.BaselineCenter, u)))
	}
	if c.Emulated {
		text += ", on an emulated CPU"
	}
	if x := d.durable[c.Target]; c.Writes && x != nil && flushMark(x) == flushIgnored {
		text += ", where flushes are ignored"
	}
	return text
}

func (d *issue) sure() {
	text := fmt.Sprintf("%s, %s", unit.Plural(d.Run.Blocks, "block"), markdownText(d.Run.Scope))
	if d.Run.Alpha > 0 {
		text += fmt.Sprintf("; intervals hold at %s over all looks", percentText(1-d.Run.Alpha))
	}
	if d.Run.Discarded > 0 {
		text += "; " + unit.Plural(d.Run.Discarded, "block") + " discarded"
	}
	if d.Run.Failed > 0 {
		text += "; " + unit.Plural(d.Run.Failed, "trial") + " failed"
	}
	if !d.Run.Finished {
		text += "; the run has not ended"
	}
	if closing := d.terminal.closing(); len(closing) > 0 {
		text += "; " + markdownText(closing[0])
	}
	d.item("How sure", text)
}

func (d *issue) versions() {
	texts := []string{"tare " + markdownText(joinKnown(" ", d.Run.Version, parenthesised(d.Run.Build)))}
	var base []string // facts of the first target, so that of the others only different ones are told
	for i := range d.Targets {
		t := &d.Targets[i]
		system := d.systemOf(t)
		told := products(t)
		for _, s := range system {
			if !slices.Contains(base, s) {
				told = append(told, s)
			}
		}
		if base == nil {
			base = system
		}
		switch {
		case len(told) > 0:
			for j := range told {
				told[j] = markdownText(unit.Cut(told[j], longestIssueName))
			}
			texts = append(texts, codeName(t.Name)+" "+strings.Join(told, ", "))
		case len(system) > 0 && !t.IsMount():
			texts = append(texts, codeName(t.Name)+" the same system")
		}
	}
	if n := len(texts) - 1 - mostIssueTargets; n > 0 {
		texts = append(texts[:1+mostIssueTargets], fmt.Sprintf("and %s more", unit.Plural(n, "target")))
	}
	d.item("Versions", strings.Join(texts, "; "))
}

// systemOf has a target's kernel, distribution and machine, cleaned.
func (d *issue) systemOf(t *verdict.Target) []string {
	f := &t.Inside
	system := []string{}
	add := func(s string) {
		if s = clean(s); s != "" {
			system = append(system, s)
		}
	}
	add(f.Distro)
	if f.Kernel != "" {
		add("kernel " + f.Kernel)
	}
	add(joinKnown(" ", f.Arch, f.CPU))
	if f.Threads > 0 {
		add(unit.Plural(f.Threads, "CPU"))
	}
	if t.Emulated {
		add("emulated")
	}
	return system
}

// versionFacts are the facts that tell which release of which product an environment is made by. Where the product has
// no name of its own, another fact has it.
var versionFacts = []struct{ fact, product, named string }{
	{"virtualbox.version", "VirtualBox", ""},
	{"vmware.version", "VMware", "vmware.product"},
	{"vmrun.version", "vmrun", ""},
	{"qemu.version", "QEMU", ""},
	{"libvirt.version", "libvirt", ""},
	{"engine.version", "container engine", "engine.name"},
	{"vagrant.box_version", "Vagrant's box", "vagrant.box"},
}

// products are the releases of the software that makes a target, and of the server of a mount, cleaned.
func products(t *verdict.Target) []string {
	var out []string
	for _, v := range versionFacts {
		if version := clean(t.Outside.Extra[v.fact]); version != "" {
			name := v.product
			if v.named != "" {
				name = cmp.Or(clean(t.Outside.Extra[v.named]), name)
			}
			out = append(out, name+" "+version)
		}
	}
	if t.Mount != nil && t.Mount.Server != "" {
		out = append(out, clean(t.Mount.Server))
	}
	return out
}

// settingsDiffer is the code of verdict's finding of settings that may explain a ratio.
const settingsDiffer = "settings-differ"

func (d *issue) settings() {
	var texts []string
	remedy := ""
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Code == settingsDiffer {
			texts = append(texts, f.Text)
			remedy = unit.Cut(clean(f.Remedy), longestIssueNote)
		}
	}
	if len(texts) > 0 {
		d.notes("Settings that differ", remedy, texts)
	}
}

// remedies are the paragraphs that a reader needs to act: findings with their remedies, failures, and open questions.
func (d *issue) remedies() {
	var texts []string
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Code != settingsDiffer {
			texts = append(texts, findingText(f))
		}
	}
	for _, n := range append(d.failures(), d.terminal.open()...) {
		texts = append(texts, n.text)
	}
	if len(texts) > 0 {
		d.notes("To know and to do", "", texts)
	}
}

// notes writes the first of some texts below an item.
func (d *issue) notes(name, text string, below []string) {
	d.line("%s", strings.TrimRight("- **"+name+":** "+markdownText(text), " "))
	for _, s := range below[:min(len(below), mostIssueNotes)] {
		d.below(markdownText(unit.Cut(clean(s), longestIssueNote)))
	}
	if n := len(below) - mostIssueNotes; n > 0 {
		d.below(fmt.Sprintf("and %d more, in the other forms of the report", n))
	}
}

func (d *issue) repeat() {
	text, attached := "`tare rerun` with the bundle of this run", ""
	if d.Command != "" {
		text = code(d.Command)
	} else if d.Plan != nil {
		if src := string(plan.Marshal(d.Plan.Afresh())); len(src) <= longestIssuePlan {
			text, attached = "save the plan below as `plan.yaml`, then `tare run plan.yaml`", src
		}
	}
	d.item("Repeat", text+fmt.Sprintf(" (it took %s here)", durationText(d.Run.Seconds)))
	raw := "every trial is in the bundle of run " + codeName(d.Run.ID)
	if d.Redacted {
		raw += "; names of hosts and users, paths and addresses are replaced by pseudonyms such as `anon-host-1`"
	}
	d.item("Raw data", raw+".")
	if attached == "" {
		return
	}
	fence := strings.Repeat("`", max(3, longestRun(attached, '`')+1))
	d.fold("The plan", func() { d.line("%s", fence+"yaml\n"+strings.TrimSuffix(attached, "\n")+"\n"+fence) })
}
