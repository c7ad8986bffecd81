package matrix

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tare/internal/workload"
)

// Preset is a command line of iozone that people quote, as parameters of fs.matrix.
type Preset struct {
	Name   string
	Doc    string
	Args   []string          // iozone's
	Params map[string]string // canonical
}

// Presets lists the presets.
func Presets() []Preset {
	return []Preset{
		{
			Name: "Racb", Doc: "iozone -Racb FILE, the whole matrix with the close inside the time (over a list of sizes and record sizes)",
			Args:   []string{"-R", "-a", "-c"},
			Params: map[string]string{"ops": "all", "close": "true"},
		},
		{
			Name: "direct4k", Doc: "iozone -I -e -a -s 64M -r 4k -i 0 -i 2, 4 KiB records of a 64 MiB file with direct I/O and a flush",
			Args:   []string{"-I", "-e", "-a", "-s", "64M", "-r", "4k", "-i", "0", "-i", "2"},
			Params: map[string]string{"size": "64MiB", "bs": "4KiB", "ops": "write rewrite randread randwrite", "direct": "true", "fsync": "true"},
		},
	}
}

const noPreset = "none"

func presetNames() []string {
	names := []string{noPreset}
	for _, p := range Presets() {
		names = append(names, p.Name)
	}
	return names
}

func presetDoc() string {
	var b strings.Builder
	for i, p := range Presets() {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s is %s", p.Name, p.Doc)
	}
	return b.String()
}

// defaults are what a parameter has when nobody gave it.
var defaults = map[string]string{"size": "64MiB", "bs": "64KiB", "ops": "all", "direct": "false", "fsync": "false", "close": "false"}

// withPreset lays a preset over the parameters that were left at their defaults. One that says something else than the
// preset is an error, because the preset's name would be a lie; the size of direct4k may be varied, as its users do.
func withPreset(p workload.Params) (workload.Params, error) {
	i := slices.IndexFunc(Presets(), func(q Preset) bool { return q.Name == p["preset"] })
	if i < 0 {
		return p, nil
	}
	q := Presets()[i]
	p = maps.Clone(p)
	for _, name := range slices.Sorted(maps.Keys(q.Params)) {
		want := q.Params[name]
		switch {
		case p[name] == defaults[name]:
			p[name] = want
		case p[name] != want && name != "size":
			return nil, fmt.Errorf("fs.matrix: preset=%s means %s=%s, and %s=%s was given: leave one of them out", q.Name, name, want, name, p[name])
		}
	}
	return p, nil
}
