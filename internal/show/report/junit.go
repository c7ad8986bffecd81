package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"tare/internal/judge/failif"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitProblem `xml:"failure,omitempty"`
	Error   *junitProblem `xml:"error,omitempty"`
	Skipped *junitProblem `xml:"skipped,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// JUnit writes the cells as test cases for a CI system's display: a suite for each candidate, and one for the
// conditions to fail on. A FAILED cell is an error, one that is WITHHELD or INCONCLUSIVE is skipped with the reason; a
// higher cost is no failure, but a damaged bundle is an error of its own. Only a condition that holds is a failure; one
// that cannot be told is skipped. A case's time is that of the cell's trials, in seconds.
func JUnit(w io.Writer, m *Model) error {
	all := junitSuites{Name: "tare " + m.title(), Time: junitTime(m.Run.Seconds)}
	if d := m.damage(); d != "" {
		s := junitSuite{Name: "bundle", Time: junitTime(0)}
		s.add(junitCase{Class: "bundle", Name: "is complete and unchanged", Time: junitTime(0),
			Error: &junitProblem{Message: d, Type: damaged}})
		all.Suites = append(all.Suites, s)
	}
	if s := junitFailIf(m); len(s.Cases) > 0 {
		all.Suites = append(all.Suites, s)
	}
	spent := m.spent()
	for col, c := range m.Columns {
		all.Suites = append(all.Suites, m.junitSuite(col, clean(c.Name()), spent))
	}
	for _, s := range all.Suites {
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Errors += s.Errors
		all.Skipped += s.Skipped
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(all); err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("write JUnit report: %w", err)
	}
	return nil
}

func junitTime(seconds float64) string { return fmt.Sprintf("%.3f", max(0, seconds)) }

// spent sums the seconds of the trials by target and workload.
func (m *Model) spent() map[[2]string]float64 {
	spent := map[[2]string]float64{}
	for i := range m.Trials {
		t := &m.Trials[i]
		spent[[2]string{t.Target, t.Workload}] += float64(t.ControllerNS) / 1e9
	}
	return spent
}

func junitFailIf(m *Model) junitSuite {
	s := junitSuite{Name: "gates", Time: junitTime(0)}
	for _, g := range m.FailIf {
		c := junitCase{Class: "gates", Name: clean(g.Expr), Time: junitTime(0), Out: clean(g.Text)}
		switch g.State {
		case failif.Holds:
			c.Failure, c.Out = &junitProblem{Message: clean(g.Text), Type: "fail-if", Text: clean(g.Expr)}, ""
		case failif.Unknown:
			c.Skipped, c.Out = &junitProblem{Message: "cannot be decided: " + clean(g.Text)}, ""
		}
		s.add(c)
	}
	return s
}

func (m *Model) junitSuite(col int, target string, spent map[[2]string]float64) junitSuite {
	s := junitSuite{Name: target}
	total := 0.0
	for i := range m.Rows {
		r := &m.Rows[i]
		cell := r.Cells[col]
		if cell == nil {
			continue
		}
		c := junitCase{Class: target, Name: clean(r.Workload), Time: junitTime(0)}
		if r.Primary {
			// The metrics of a workload come from the same trials, whose time counts once.
			t := spent[[2]string{cell.Target, cell.Workload}]
			c.Time = junitTime(t)
			total += t
		} else {
			c.Name += " " + clean(r.Metric)
		}
		reason := "no verdict yet"
		if len(cell.Warnings) > 0 {
			reason = clean(cell.Warnings[0].Text)
		}
		switch cell.Verdict {
		case record.Different, record.Equivalent, record.Measured:
		case record.Failed:
			c.Error = &junitProblem{Message: "no usable figures", Type: string(record.Failed)}
			if f := cell.Failure; f != nil {
				c.Error.Message, c.Error.Text = clean(f.Message), clean(f.Evidence)
			}
		case record.Withheld:
			c.Skipped = &junitProblem{Message: "verdict withheld: " + reason}
		default:
			switch n := cell.BlocksNeeded; {
			case n > plan.MostBlocks: // as the table says it: no run can have so many
				reason = fmt.Sprintf("not even %d blocks would decide it", plan.MostBlocks)
			case n > 0:
				reason = fmt.Sprintf("about %s would decide it", unit.Plural(n, "block"))
			}
			c.Skipped = &junitProblem{Message: "inconclusive: " + reason}
		}
		if cell.Ratio.Center > 0 {
			c.Out = fmt.Sprintf("%s: %s costs %sx", cell.Verdict, target, ratioText(cell.Ratio.Center))
			if interval := bracket(cell.Low, cell.High, cell.Level > 0); interval != "" {
				c.Out += " " + interval
			}
			c.Out += fmt.Sprintf(" against %s; %s to %s", clean(cell.Baseline),
				unit.Format(cell.BaselineCenter, clean(r.Unit)), unit.Format(cell.Center, clean(r.Unit)))
			c.Out = strings.TrimPrefix(c.Out, ": ")
			if cell.UnlikeFlushes() {
				c.Out += "; not ranked: the sides flush differently"
			}
		}
		s.add(c)
	}
	s.Time = junitTime(total)
	return s
}

func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}
