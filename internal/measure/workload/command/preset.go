package command

import (
	"bytes"
	"strings"

	"tare/internal/sys/benchfmt"
	"tare/internal/unit"
)

const presetNone = "none"

// program is a preset: a program whose output is known.
type program struct {
	name    string
	figures []unit.Metric // the first is the headline
	parse   func(out []byte) (*found, error)
}

func (p program) metrics() []unit.Metric { return p.figures }

func (p program) extract(out []byte) (*found, error) { return p.parse(out) }

// presets lists the programs whose output is known.
func presets() []program {
	return []program{fio(), iperf3(), sysbench(), wrk(), pgbench()}
}

func presetNames() []string {
	names := []string{presetNone}
	for _, p := range presets() {
		names = append(names, p.name)
	}
	return names
}

func higher(name, unitName, doc string) unit.Metric {
	return unit.Metric{Name: name, Unit: unitName, Better: unit.Higher, Doc: doc}
}

func lower(name, unitName, doc string) unit.Metric {
	return unit.Metric{Name: name, Unit: unitName, Better: unit.Lower, Doc: doc}
}

func tailOf(m unit.Metric) unit.Metric {
	m.Tail = true
	return m
}

// after returns the text after a label, from the first line that begins with it; leading blanks are ignored.
func after(out []byte, label string) (string, bool) {
	for line := range bytes.Lines(out) {
		line = bytes.TrimSpace(line)
		if rest, ok := bytes.CutPrefix(line, []byte(label)); ok {
			return strings.TrimSpace(string(rest[:min(len(rest), 200)])), true
		}
	}
	return "", false
}

// number returns the number after a label: its first word, without the unit behind it.
func number(out []byte, label string) (float64, bool) {
	rest, ok := after(out, label)
	if !ok {
		return 0, false
	}
	word, _, _ := strings.Cut(rest, " ")
	v, err := benchfmt.Number(word)
	return v, err == nil
}
