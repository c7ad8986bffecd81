package fleet

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/mattn/go-runewidth"

	"tare/internal/unit"
)

// QualificationFormats lists the ways in the order they are shown.
func QualificationFormats() []Format[Qualification] {
	return []Format[Qualification]{
		{"text", "verdict, figures and facts for the terminal", QualificationText},
		{"json", "everything, for scripts", JSON[Qualification]},
	}
}

// QualificationText writes it for the terminal.
func QualificationText(w io.Writer, q *Qualification, o Options) error {
	t := &text{Options: o}
	t.line("", fmt.Sprintf("%s: %s", strings.ToUpper(string(q.Verdict)), clean(q.Sentence)))
	name := "the fleet"
	if q.Name != "" {
		name = clean(q.Name)
	}
	t.line("", fmt.Sprintf("Compared with %s of %s. At most %.0f %% of machines of the kind fail, and at most "+
		"%.0f %% of machines that cost %s more in any figure pass.", unit.Plural(q.Hosts, "host"), name, 100*q.Alarms,
		100*q.Alarms, percent(q.Tolerance)))
	t.out.WriteString("\n")
	t.qualified(q)
	facts := len(q.Differs) > 0 && (q.Verdict != Pass || o.Details)
	if facts {
		t.title("What differs from the other hosts of the kind")
		for i := range q.Differs {
			t.line("  ", clean(q.Differs[i].differing()))
		}
		t.line("", "These facts differ; that they are the reason is not shown.")
	} else if q.Verdict == Fail {
		t.title("No known fact sets this machine apart from its kind.")
	}
	if len(q.Warnings) > 0 {
		t.out.WriteString("\n")
	}
	for _, x := range q.Warnings {
		t.line("! ", clean(x.Text))
		if x.Remedy != "" {
			t.line("  ", "Remedy: "+clean(x.Remedy))
		}
	}
	_, err := w.Write(t.out.Bytes())
	return err
}

// widestName bounds the first column, in columns of the terminal.
const widestName = 46

// qualified is the table of the cells. Those that decide the verdict come first in attention by their capitals.
func (t *text) qualified(q *Qualification) {
	const head = "figure"
	rows := [][]string{{head, "here", "against", "at most", "a further host of the kind", ""}}
	whys := map[int]string{}
	for i := range q.Cells {
		x := &q.Cells[i]
		row := []string{runewidth.Truncate(clean(x.name()), widestName, "~"), "-", "-", "-", "-", x.word()}
		if x.Value > 0 {
			row[1] = x.value(x.Value)
		}
		if x.Against > 0 {
			row[2], row[3] = against(x.Against), against(x.AtMost)
		}
		if x.NextLow > 0 {
			row[4] = fmt.Sprintf("%s to %s", x.value(x.NextLow), x.value(x.NextHigh))
		}
		rows = append(rows, row)
		switch {
		case x.Verdict == Unsure && x.Why != "":
			whys[len(rows)-1] = x.Why
		case x.Verdict == Fail:
			whys[len(rows)-1] = fmt.Sprintf("p %.2g, with all figures counted in; hosts of the kind differ by %s",
				x.PHolm, percent(x.HostSD))
		}
	}
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, s := range r {
			width[i] = max(width[i], runewidth.StringWidth(s))
		}
	}
	for n, r := range rows {
		line := ""
		for i, s := range r {
			if i > 0 {
				line += "  "
			}
			if i > 0 && i < 4 {
				line += runewidth.FillLeft(s, width[i])
			} else {
				line += runewidth.FillRight(s, width[i])
			}
		}
		t.out.WriteString(strings.TrimRight(line, " ") + "\n")
		if why := whys[n]; why != "" {
			t.line("    ", clean(why))
		}
	}
	if q.Verdict == Pass {
		t.found(q)
	}
}

// found names the cell that finds the least, with the excess that would have failed there, so that a pass is not taken
// for more than it is.
func (t *text) found(q *Qualification) {
	worst, name := 0.0, ""
	for i := range q.Cells {
		if x := &q.Cells[i]; x.Finds > worst {
			worst, name = x.Finds, x.name()
		}
	}
	if worst > 1 && !math.IsInf(worst, 0) {
		others := ""
		if len(q.Cells) > 1 {
			others = ", and of less in the others"
		}
		t.line("", fmt.Sprintf("What would have failed, with a chance of 95 %%: a cost of %s more in %s%s.",
			percent(worst-1), clean(name), others))
	}
}

func (x *QualifiedCell) name() string {
	c := Cell{Key: x.Key, IsRatio: x.IsRatio}
	return subject(&c, x.Workload)
}

func (x *QualifiedCell) value(v float64) string {
	c := Cell{IsRatio: x.IsRatio, Unit: x.Unit}
	return c.value(v)
}

func (x *QualifiedCell) word() string {
	if x.Verdict == Pass {
		return "pass"
	}
	return strings.ToUpper(string(x.Verdict))
}
