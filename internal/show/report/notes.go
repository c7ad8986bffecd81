package report

import (
	"fmt"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// note is a paragraph below the table, with the sign that it begins with.
type note struct{ prefix, text string }

// findings are the sentences of the comparison, each with its remedy.
func (t *terminal) findings() []note {
	var notes []note
	for i := range t.Findings {
		f := &t.Findings[i]
		prefix := "! "
		if f.Severity == verdict.Info {
			prefix = "- "
		}
		notes = append(notes, note{prefix, findingText(f)})
	}
	return notes
}

// findingText is a finding with its remedy, as a sentence of each.
func findingText(f *verdict.Finding) string {
	text := clean(f.Text)
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	if f.Remedy != "" {
		text += " Remedy: " + strings.TrimSuffix(clean(f.Remedy), ".") + "."
	}
	return text
}

// failures tells why cells failed, each reason once, except where a finding says it of the whole target.
func (t *terminal) failures() []note {
	type key struct{ target, message, said string }
	dead := map[string]bool{}
	for i := range t.Targets {
		dead[t.Targets[i].Name] = t.Targets[i].Error != nil
	}
	var order []key
	workloads := map[key][]string{}
	for i := range t.Cells {
		c := &t.Cells[i]
		if c.Verdict != record.Failed || c.Failure == nil || !c.Primary || dead[c.Target] {
			continue
		}
		k := key{c.Target, c.Failure.Message, lastSaid(c.Failure)}
		if workloads[k] == nil {
			order = append(order, k)
		}
		workloads[k] = append(workloads[k], clean(c.Workload))
	}
	var notes []note
	for _, k := range order {
		text := fmt.Sprintf("%s %s: %s", clean(k.target), strings.Join(workloads[k], ", "), clean(k.message))
		if k.said != "" {
			text += "; its output: " + clean(k.said)
		}
		notes = append(notes, note{t.glyph(failed) + " ", text})
	}
	return notes
}

// lastSaid is the last line that failed work printed, which mostly says why: an exit code alone does not. All of it is
// in the bundle.
func lastSaid(f *record.Failure) string {
	if f.Kind != "setup" && f.Kind != "measure" { // the output of an environment while it died is a log, and no answer
		return ""
	}
	lines := strings.Split(strings.TrimSpace(f.Evidence), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if strings.Contains(f.Message, last) {
		return ""
	}
	if r := []rune(last); len(r) > 200 {
		last = string(r[:200]) + "..."
	}
	return last
}

// open returns notes on the cells and parts that the run left open: how many they are, and the blocks or sessions that
// would settle them.
func (t *terminal) open() []note {
	undecided, need, missing, sessions := 0, 0, 0, 0
	for i := range t.Cells {
		c := &t.Cells[i]
		if !c.Primary || c.Verdict != record.Inconclusive && c.Verdict != "" {
			continue
		}
		if c.Blocks == 0 {
			missing++
			continue
		}
		undecided++
		need = max(need, c.BlocksNeeded)
		if perSession := c.Blocks / max(1, t.Run.Sessions); perSession > 0 {
			sessions = max(sessions, (c.BlocksNeeded+perSession-1)/perSession)
		}
	}
	var notes []note
	if undecided > 0 {
		text := unit.Plural(undecided, "cell") + " cannot be decided yet"
		switch {
		case t.Run.Sessions > 1 && sessions > plan.MaxSessions:
			text += fmt.Sprintf("; not even %d sessions would decide the noisiest of them: use a quieter machine, or "+
				"accept a larger margin", plan.MaxSessions)
		case t.Run.Sessions > 1 && sessions > 0:
			text += fmt.Sprintf("; about %s would decide them (--sessions %d), or a larger margin",
				unit.Plural(sessions, "session"), sessions)
		case need > plan.MostBlocks:
			text += fmt.Sprintf("; not even %d blocks would decide the noisiest of them: lengthen the trials "+
				"(--full), use a quieter machine, or accept a larger margin", plan.MostBlocks)
		case need > 0:
			text += fmt.Sprintf("; about %s would decide them (--blocks %d), or a larger margin",
				unit.Plural(need, "block"), need)
		}
		notes = append(notes, note{t.glyph(cannotTell) + " ", text + "."})
	}
	parts, need := 0, 0
	for i := range t.Groups {
		for j := range t.Groups[i].Groups {
			if g := &t.Groups[i].Groups[j]; g.NotConfirmed() {
				parts, need = parts+1, max(need, g.BlocksNeeded)
			}
		}
	}
	if parts > 0 {
		text := fmt.Sprintf("Beyond the margin, but not significant among so many: %s of the work",
			unit.Plural(parts, "part"))
		if need <= plan.MostBlocks && t.Run.Sessions < 2 {
			text += fmt.Sprintf("; about %s would decide (--blocks %d)", unit.Plural(need, "block"), need)
		}
		notes = append(notes, note{t.glyph(unconfirmed) + " ", text + "."})
	}
	if missing > 0 {
		notes = append(notes, note{t.glyph(notRun) + " ", unit.Plural(missing, "cell") + " of the plan had no block."})
	}
	return notes
}

// closing says how well the host repeats itself, explains the ratio, and says how far the intervals reach.
func (t *terminal) closing() []string {
	var texts []string
	n := &t.Null
	switch {
	case len(t.Columns) == 1 && t.Columns[0].Target.Baseline:
		texts = append(texts,
			fmt.Sprintf("Only %s was measured, against itself. Add another environment with -e to compare.",
				clean(t.Run.Baseline)))
	case n.Cells == 0:
		texts = append(texts, "null control: no figure, so it is not known how well this host repeats itself.")
	default:
		text := fmt.Sprintf("null control: %s against itself %s spread", clean(t.Run.Baseline), percentText(n.Spread))
		if n.Cells > 1 {
			text += fmt.Sprintf(" (the worst of %d workloads %s)", n.Cells, percentText(n.Worst))
		}
		if n.Tells > 0 {
			text += fmt.Sprintf("; smallest difference this run could detect: %s", percentText(n.Tells))
		}
		texts = append(texts, text+".")
	}
	if len(t.Columns) > 0 {
		text := fmt.Sprintf("A ratio is the cost against %s: 2.00 is twice the time per operation.",
			clean(t.Run.Baseline))
		for i := range t.Columns {
			if name := t.Columns[i].Name(); name != t.Columns[i].Target.Name {
				text += fmt.Sprintf(" %s is the cost of %s against %s.", clean(name), clean(t.Columns[i].Target.Name),
					clean(t.Columns[i].Target.Against))
				break
			}
		}
		if t.Run.Alpha > 0 {
			text += fmt.Sprintf(" The intervals hold at %s over all looks, %s.", percentText(1-t.Run.Alpha),
				clean(t.Run.Scope))
		}
		texts = append(texts, text)
	}
	return texts
}

// commands repeat (or continue) and check the run; none without a bundle. A run that can be neither repeated nor
// continued can be shown.
func (t *terminal) commands() []note {
	if t.Bundle == "" {
		return nil
	}
	check := note{"check: ", "tare verify " + shellWord(t.Bundle)}
	repeat := note{"repeat: ", "tare rerun " + shellWord(t.Bundle)}
	if !t.Run.Finished {
		repeat = note{"go on: ", "tare run --resume " + shellWord(t.Bundle)}
	}
	if t.Plan != nil && t.Plan.Once() {
		repeat = note{"show: ", "tare report " + shellWord(t.Bundle)}
	}
	return []note{repeat, check}
}
