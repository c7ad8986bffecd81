package plan

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Marshal writes a resolved plan as YAML, in the language that Parse and Unmarshal read: Unmarshal gives an equal Plan,
// and `tare run` takes the file as a plan. Text is always in double quotes, so that no value is taken for another type.
func Marshal(p *Plan) []byte {
	var b bytes.Buffer
	line := func(key, value string) { fmt.Fprintf(&b, "%s: %s\n", key, value) }
	b.WriteString("# A resolved plan: everything that decides the course of the run.\n")
	line("schema", strconv.Itoa(p.Schema))
	if p.Name != "" {
		line("name", yamlText(p.Name))
	}
	if p.Question != "" {
		line("question", yamlText(p.Question))
	}
	line("baseline", yamlText(p.Baseline))
	line("seed", strconv.FormatUint(p.Seed, 10))
	line("mode", string(p.Mode))
	line("trial", p.Trial.String())
	line("budget", p.Budget.String())
	line("sessions", strconv.Itoa(p.Sessions))
	if p.MostSessions > 1 {
		line("most_sessions", strconv.Itoa(p.MostSessions))
	}
	looks := make([]string, len(p.Looks))
	for i, n := range p.Looks {
		looks[i] = strconv.Itoa(n)
	}
	line("looks", "["+strings.Join(looks, ", ")+"]")
	line("alpha", share(p.Alpha))
	line("look_alpha", share(p.LookAlpha))
	line("margin", share(p.Margin))
	line("tail_margin", share(p.TailMargin))
	line("precision", share(p.Precision))
	if p.Missing != Fail {
		line("missing", p.Missing)
	}
	if p.Cards {
		line("cards", "yes")
	}
	if e := p.Energy; e != nil && len(e.Meter) > 0 {
		words := make([]string, len(e.Meter))
		for i, w := range e.Meter {
			words[i] = yamlText(w)
		}
		line("energy", "{ meter: ["+strings.Join(words, ", ")+"] }")
	} else if e != nil {
		line("energy", e.From)
	}
	if p.Screen > 0 {
		line("screen", strconv.Itoa(p.Screen))
	}
	marshalSlurm(&b, p.Slurm)
	b.WriteString("environments:\n")
	for _, e := range p.Targets {
		if e.Like != "" {
			continue // it follows from the neighbour or from the copies
		}
		fmt.Fprintf(&b, "  %s:\n    spec: %s\n", yamlText(e.Name), yamlText(e.Text))
		if e.From != "" {
			fmt.Fprintf(&b, "    from: %s\n", yamlText(e.From))
		}
		if e.Against != "" {
			fmt.Fprintf(&b, "    against: %s\n", yamlText(e.Against))
		}
	}
	marshalBeside(&b, p.Beside)
	if c := p.Copies; c != nil {
		targets, steps := make([]string, len(c.Targets)), make([]string, len(c.Steps))
		for i, t := range c.Targets {
			targets[i] = yamlText(t)
		}
		for i, n := range c.Steps {
			steps[i] = strconv.Itoa(n)
		}
		fmt.Fprintf(&b, "copies:\n  steps: [%s]\n  floor: %s\n  targets: [%s]\n", strings.Join(steps, ", "),
			share(c.Floor), strings.Join(targets, ", "))
	}
	b.WriteString("workloads:\n")
	for i := range p.Workloads {
		marshalWorkload(&b, &p.Workloads[i])
	}
	return b.Bytes()
}

func marshalBeside(b *bytes.Buffer, all []Neighbour) {
	if len(all) > 0 {
		b.WriteString("beside:\n")
	}
	for i := range all {
		n := &all[i]
		fmt.Fprintf(b, "  %s:\n    workload:\n      label: %s\n      kind: %s\n", yamlText(n.Name), yamlText(n.Label),
			yamlText(n.Kind))
		if len(n.Params) > 0 {
			b.WriteString("      params:\n")
			for _, k := range slices.Sorted(maps.Keys(n.Params)) {
				fmt.Fprintf(b, "        %s: %s\n", yamlText(k), yamlText(n.Params[k]))
			}
		}
		b.WriteString("    in:\n")
		for _, target := range slices.Sorted(maps.Keys(n.In)) {
			fmt.Fprintf(b, "      %s: %s\n", yamlText(target), yamlText(n.In[target]))
		}
	}
}

func marshalWorkload(b *bytes.Buffer, w *Workload) {
	fmt.Fprintf(b, "  - label: %s\n    kind: %s\n", yamlText(w.Label), yamlText(w.Kind))
	if len(w.Targets) > 0 {
		targets := make([]string, len(w.Targets))
		for i, t := range w.Targets {
			targets[i] = yamlText(t)
		}
		fmt.Fprintf(b, "    targets: [%s]\n", strings.Join(targets, ", "))
	}
	if w.Baseline != "" {
		fmt.Fprintf(b, "    baseline: %s\n", yamlText(w.Baseline))
	}
	if w.Trial > 0 {
		fmt.Fprintf(b, "    trial: %s\n", w.Trial)
	}
	if len(w.Params) > 0 {
		b.WriteString("    params:\n")
		for _, k := range slices.Sorted(maps.Keys(w.Params)) {
			fmt.Fprintf(b, "      %s: %s\n", yamlText(k), yamlText(w.Params[k]))
		}
	}
	if len(w.Vary) > 0 {
		b.WriteString("    vary:\n")
		for _, target := range slices.Sorted(maps.Keys(w.Vary)) {
			fmt.Fprintf(b, "      %s:\n", yamlText(target))
			for _, k := range slices.Sorted(maps.Keys(w.Vary[target])) {
				fmt.Fprintf(b, "        %s: %s\n", yamlText(k), yamlText(w.Vary[target][k]))
			}
		}
	}
	if len(w.Work) > 0 {
		b.WriteString("    work:\n")
		for _, k := range slices.Sorted(maps.Keys(w.Work)) {
			fmt.Fprintf(b, "      %s: %d\n", yamlText(k), w.Work[k])
		}
	}
}

func share(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// yamlText writes a double-quoted scalar. Everything that is not printable is escaped; invalid UTF-8 cannot be written
// in YAML and becomes the replacement character.
func yamlText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError:
			b.WriteRune(utf8.RuneError)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
