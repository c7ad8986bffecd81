package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tare/internal/measure/sysinfo"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// columns are those of a result's table.
var columns = []string{"row", "tare", "peer", "tare / peer (95 %)", "peer's spread", "goal", "verdict", "medians"}

// render writes the outcomes as Markdown that also reads well in a terminal.
func render(outcomes []outcome, machine []string, s settings, began time.Time, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s in %s: %d pairs a row, runs of at least %v, seed %d.\n\n",
		began.Format("2006-01-02"), took.Round(time.Second), s.pairs, s.length, s.seed)
	for _, m := range machine {
		fmt.Fprintf(&b, "- %s\n", m)
	}
	b.WriteString("\n")
	table := [][]string{columns}
	agreed, compared := 0, 0
	for i := range outcomes {
		lines, a, c := outcomes[i].lines()
		table = append(table, lines...)
		agreed, compared = agreed+a, compared+c
	}
	writeTable(&b, table)
	writeAgreement(&b, agreed, compared)
	b.WriteString(toldHead)
	for i := range outcomes {
		outcomes[i].describe(&b)
	}
	return b.String()
}

// toldHead stands before the descriptions of the rows.
const toldHead = "\nWhat was run, and the command that measures the row again:\n\n"

func writeAgreement(b *strings.Builder, agreed, compared int) {
	if compared > 0 {
		fmt.Fprintf(b, "\nAgreement: in %d of %d comparisons the medians lie within %.0f %% of each other or "+
			"within the peer's own spread.\n", agreed, compared, 100*tolerance)
	}
}

// lines are the table's lines of a row, one for each figure, and how many of its comparisons agreed.
func (o *outcome) lines() (lines [][]string, agreed, compared int) {
	if o.skipped != "" || o.err != nil || len(o.tare[0]) == 0 {
		why := "not run: " + o.skipped
		if o.skipped == "" {
			why = "failed, see below"
		}
		return [][]string{{o.row.name, why, "", "", "", "", "", ""}}, 0, 0
	}
	for i, f := range o.row.figures {
		var peer []float64
		if o.row.peer != "" && !f.alone {
			peer = o.peer[i]
		}
		j := judge(f, o.tare[i], peer)
		name := o.row.name
		if f.name != "" {
			name += ": " + f.name
		}
		line := []string{name, j.tare, j.peer, "", percent(j.spread), f.goalText(peer != nil), j.verdict,
			j.agreement}
		if peer != nil {
			line[3] = fmt.Sprintf("%s (%s)", f.ratio(j.estimate.Center), interval(j.estimate, f.ratio))
		} else {
			line[2], line[3] = "none", interval(j.estimate, func(v float64) string { return unit.Format(v, f.unit) })
		}
		lines = append(lines, line)
		if j.agreement != "" {
			compared++
			if j.agreed {
				agreed++
			}
		}
	}
	return lines, agreed, compared
}

// digits are those behind the point of the goal for a ratio: two, unless it is nearer to 1.
func (f *figure) digits() int {
	if v := 100 * f.goal; math.Abs(v-math.Round(v)) > 1e-6 {
		return 3
	}
	return 2
}

func (f *figure) ratio(v float64) string { return fmt.Sprintf("%.*f", f.digits()+1, v) }

func percent(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}

// goalText writes a goal: a ratio beside a peer, a figure without one.
func (f *figure) goalText(beside bool) string {
	if f.goal == 0 {
		return ""
	}
	bound := map[bool]string{true: "at most ", false: "at least "}[f.atMost]
	if beside {
		return bound + fmt.Sprintf("%.*f", f.digits(), f.goal)
	}
	return bound + unit.Format(f.goal, f.unit)
}

// describe tells what a row did.
func (o *outcome) describe(b *strings.Builder) {
	fmt.Fprintf(b, "- **%s**: %s", o.row.name, o.row.what)
	if o.row.peer != "" {
		fmt.Fprintf(b, ", against %s", o.row.peer)
	}
	fmt.Fprintf(b, ". `go run ./bench %s`\n", o.row.name)
	for _, n := range o.notes {
		fmt.Fprintf(b, "  - %s\n", n)
	}
	for _, why := range o.apart() {
		fmt.Fprintf(b, "  - %s\n", why)
	}
	if o.err != nil {
		fmt.Fprintf(b, "  - failed: %s\n", strings.ReplaceAll(strings.TrimSpace(proc.Printable([]byte(o.err.Error()))),
			"\n", "; "))
	}
}

// apart says of each figure whose medians are to agree and do not what is known of the reason.
func (o *outcome) apart() (list []string) {
	for i, f := range o.row.figures {
		if !f.agrees || o.err != nil || len(o.tare[i]) == 0 || judge(f, o.tare[i], o.peer[i]).agreed {
			continue
		}
		why := f.why
		if why == "" {
			why = "why is not known"
		}
		if f.name != "" {
			why = f.name + ": " + why
		}
		list = append(list, "the medians differ: "+why)
	}
	return list
}

// writeTable writes a Markdown table with its columns aligned.
func writeTable(b *strings.Builder, table [][]string) {
	width := make([]int, len(table[0]))
	for _, line := range table {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	rule := make([]string, len(width))
	for i, w := range width {
		rule[i] = strings.Repeat("-", w)
	}
	for _, line := range slices.Insert(slices.Clone(table), 1, rule) {
		for i, cell := range line {
			fmt.Fprintf(b, "| %s%s ", cell, strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)))
		}
		b.WriteString("|\n")
	}
}

// processor is the kind of this machine's processor, which its results stand under.
func (b *bench) processor(ctx context.Context) string {
	if name := strings.Join(strings.Fields(sysinfo.Collect(ctx, b.dir).CPU), " "); name != "" {
		return name
	}
	return "unknown processor"
}

// machine lists what the figures depend on: the machine, and the versions of the peers of the rows.
func (b *bench) machine(ctx context.Context, chosen []row) []string {
	f := sysinfo.Collect(ctx, b.dir)
	kind := "no hypervisor seen"
	if vm := f.Extra["hypervisor.vm"]; vm != "" {
		kind = "a virtual machine (" + vm + ")"
	}
	fs, _, _ := strings.Cut(f.WorkFS, " ")
	list := []string{
		fmt.Sprintf("%s, %d processors, %s of memory, %s", f.CPU, f.Threads, unit.Format(float64(f.MemoryBytes), "B"),
			kind),
		fmt.Sprintf("%s, kernel %s; files on %s", f.Distro, f.Kernel, fs),
	}
	if how := f.Extra["network.congestion"]; how != "" && slices.ContainsFunc(chosen, func(r row) bool {
		return slices.Contains(r.programs, "iperf3")
	}) {
		list = append(list, "TCP congestion control: "+how)
	}
	versions := []string{"tare: " + runtime.Version()}
	for _, p := range []struct {
		program string
		argv    []string
	}{
		{"fio", []string{"fio", "--version"}},
		{"sysbench", []string{"sysbench", "--version"}},
		{"gcc", []string{"gcc", "--version"}},
		{"mbw", []string{"dpkg-query", "--show", "mbw"}},
		{"iperf3", []string{"iperf3", "--version"}},
		{"hyperfine", []string{"hyperfine", "--version"}},
		{"qemu-system-x86_64", []string{"qemu-system-x86_64", "--version"}},
		{"iozone", []string{"dpkg-query", "--show", "iozone3"}},
	} {
		if !slices.ContainsFunc(chosen, func(r row) bool { return slices.Contains(r.programs, p.program) }) {
			continue
		}
		if out, err := program(ctx, p.argv...); err == nil {
			line, _, _ := strings.Cut(proc.Printable(out), "\n")
			versions = append(versions, strings.Join(strings.Fields(line), " "))
		}
	}
	return append(list, strings.Join(versions, ", "))
}
