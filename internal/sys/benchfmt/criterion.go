package benchfmt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// parseCriterion reads criterion's output: its text, the lines of `cargo criterion --message-format=json`, or one
// estimates.json, which has no name in it.
func parseCriterion(out []byte) (*Suite, error) {
	b := newBuilder()
	err := error(nil)
	if head := bytes.TrimLeft(out, " \t\r\n"); len(head) > 0 && head[0] == '{' {
		err = criterionJSON(b, out)
	} else {
		err = criterionText(b, out)
	}
	if err != nil {
		return nil, err
	}
	s, err := b.done()
	if err != nil {
		return nil, fmt.Errorf("%w; criterion prints `name  time: [low middle high]`, and cargo criterion "+
			"--message-format=json a line for each benchmark", err)
	}
	return s, nil
}

// criterionMessage is a line of cargo criterion, or an estimates.json: the two have no field in common but mean and
// median, of other forms.
type criterionMessage struct {
	Reason     string    `json:"reason"`
	ID         string    `json:"id"`
	Typical    *estimate `json:"typical"`
	Throughput []struct {
		PerIteration jsonNumber `json:"per_iteration"`
		Unit         string     `json:"unit"`
	} `json:"throughput"`
	Mean  *estimate `json:"mean"`
	Slope *estimate `json:"slope"`
}

// estimate is an estimate of a message, with its unit, or one of an estimates.json, in nanoseconds.
type estimate struct {
	Estimate *jsonNumber `json:"estimate"`
	Unit     string      `json:"unit"`
	Point    *jsonNumber `json:"point_estimate"`
}

func criterionJSON(b *builder, out []byte) error {
	var whole criterionMessage
	if json.Unmarshal(out, &whole) == nil && whole.Reason == "" {
		return criterionEstimates(b, &whole)
	}
	number := 0
	for line := range bytes.Lines(out) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] != '{' {
			continue // notes of cargo or of the benchmark
		}
		var m criterionMessage
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("line %d is not JSON: %w", number, err)
		}
		if m.Reason != "benchmark-complete" {
			continue
		}
		if err := m.add(b); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return nil
}

func (m *criterionMessage) add(b *builder) error {
	if m.Typical == nil || m.Typical.Estimate == nil {
		b.leave(m.ID, "time", "it has no typical estimate")
		return nil
	}
	v := m.Typical.Estimate.v
	time := normal(v, m.Typical.Unit)
	time.Name = "time"
	if err := b.put(m.ID, time); err != nil {
		return err
	}
	for _, t := range m.Throughput {
		u := t.Unit
		if u == "elements" {
			u = "elem"
		}
		if time.Unit != "s" { // it is measured by something else than a clock
			continue
		}
		if err := b.add(m.ID, "throughput", t.PerIteration.v/time.Value, u+"/s"); err != nil {
			return err
		}
	}
	return nil
}

// criterionEstimates reads one estimates.json. Its headline is the slope, or the mean where samples are flat.
func criterionEstimates(b *builder, m *criterionMessage) error {
	for _, e := range []*estimate{m.Slope, m.Mean} {
		if e != nil && e.Point != nil {
			return b.add("estimates.json", "time", e.Point.v, "ns")
		}
	}
	return errors.New("the document is neither a message of cargo criterion nor an estimates.json: it has no reason " +
		"and no mean with a point_estimate")
}

// criterionText reads lines such as
//
//	fib 20                  time:   [26.029 µs 26.251 µs 26.505 µs]
//	                        thrpt:  [36.3 MiB/s 36.6 MiB/s 36.9 MiB/s]
//
// or, with --output-format bencher, those of libtest. A long name stands on a line of its own before. Changes against
// an earlier run are in percent and no figures.
func criterionText(b *builder, out []byte) error {
	name, alone := "", ""
	number := 0
	for raw := range bytes.Lines(out) {
		number++
		line := strings.TrimRight(string(raw), " \t\r\n")
		figure, head, rest, ok := criterionFigure(line)
		switch {
		case strings.HasPrefix(line, "test ") && strings.Contains(line, bencherMark):
			if err := b.bencher(line); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
			continue
		case !ok:
			if line != "" && line[0] != ' ' && line[0] != '\t' {
				alone = line
			}
			continue
		case strings.Contains(rest, "%"):
			continue
		case head != "":
			name = head
		case figure == "time":
			name = alone
		}
		if figure == "time" {
			alone = ""
		}
		v, u, err := middle(rest)
		if err == nil {
			f := normal(v, u)
			f.Name = figure
			err = b.put(name, f)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return nil
}

// bencherMark stands between name and figure in a line of libtest's own benchmarks, as criterion prints them with
// --output-format bencher.
const bencherMark = " ... bench:"

// bencher reads a line such as "test fib_20 ... bench:      26,251 ns/iter (+/- 246)".
func (b *builder) bencher(line string) error {
	name, rest, _ := strings.Cut(strings.TrimPrefix(line, "test "), bencherMark)
	words := strings.Fields(rest)
	if len(words) < 2 {
		return fmt.Errorf("expected a figure and its unit behind %s", strings.TrimSpace(bencherMark))
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(words[0], ",", ""), 64)
	if err != nil && v == 0 {
		return fmt.Errorf("%.60q is not a number", words[0])
	}
	return b.add(strings.TrimSpace(name), "time", v, words[1])
}

// criterionFigure finds the figure of a line, the text before it, and the text in its brackets.
func criterionFigure(line string) (figure, head, rest string, ok bool) {
	line = strings.ReplaceAll(line, "\t", " ")
	for _, f := range [][2]string{{" time:", "time"}, {" thrpt:", "throughput"}} {
		at := strings.LastIndex(" "+line, f[0])
		if at < 0 {
			continue
		}
		before, after := (" " + line)[:at], strings.TrimSpace((" " + line)[at+len(f[0]):])
		if end := strings.IndexByte(after, ']'); strings.HasPrefix(after, "[") && end > 0 {
			return f[1], strings.TrimSpace(before), after[1:end], true
		}
	}
	return "", "", "", false
}

// middle returns the second of three figures with their units: low, estimate, high.
func middle(s string) (float64, string, error) {
	words := strings.Fields(s)
	if len(words) != 6 {
		return 0, "", fmt.Errorf("expected three figures with their units, found [%.80s]", s)
	}
	v, err := strconv.ParseFloat(words[2], 64)
	if err != nil && v == 0 {
		return 0, "", fmt.Errorf("%.60q is not a number", words[2])
	}
	return v, words[3], nil
}
