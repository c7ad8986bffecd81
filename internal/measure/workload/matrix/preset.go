package matrix

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// Preset is a well-known command line of iozone, as parameters of fs.matrix.
type Preset struct {
	Name   string
	Doc    string
	Args   []string          // iozone's
	Params map[string]string // canonical

	from, to Row // its rows by default
}

// Presets lists the presets.
func Presets() []Preset {
	return []Preset{
		{
			Name: "Racb", Doc: "iozone -Racb FILE, all 126 rows as a workload each, or those of the " +
				"given size or bs",
			Args:   []string{"-R", "-a", "-c"},
			Params: map[string]string{"ops": "all", "close": "true"},
			from:   Row{AutoMinSize, AutoMinRec}, to: Row{AutoMaxSize, AutoMaxRec},
		},
		{
			Name: "direct4k", Doc: "iozone -I -e -a -s 64M -r 4k -i 0 -i 2, direct with a flush",
			Args: []string{"-I", "-e", "-a", "-s", "64M", "-r", "4k", "-i", "0", "-i", "2"},
			Params: map[string]string{"size": "64MiB", "bs": "4KiB", "ops": "write rewrite randread randwrite",
				"direct": "true", "fsync": "true"},
			from: Row{64 << 20, 4 << 10}, to: Row{64 << 20, 4 << 10},
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

// defaults are the parameters' default values.
var defaults = map[string]string{"size": "64MiB", "bs": "64KiB", "ops": "all", "direct": "false", "fsync": "false",
	"close": "false"}

// withPreset applies a preset to the parameters that are at their defaults. A parameter that contradicts the preset is
// an error, because the preset's name would be wrong; only the size of direct4k may vary, as it does in practice.
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
			return nil, fmt.Errorf("fs.matrix: preset=%s means %s=%s, but %s=%s was given: leave out one of them",
				q.Name, name, want, name, p[name])
		}
	}
	return p, nil
}

// expand returns the rows of a preset: one, or as many as `tare iozone` lists if the size or the record size is not
// given. Only if neither is given, small records are left out of large files.
func expand(given map[string]string) []map[string]string {
	i := slices.IndexFunc(Presets(), func(q Preset) bool { return q.Name == given["preset"] })
	if i < 0 {
		return []map[string]string{given}
	}
	from, to := Presets()[i].from, Presets()[i].to
	size, sized := given["size"]
	rec, recorded := given["bs"]
	if n, err := unit.ParseSize(size); sized && err == nil {
		from.Size, to.Size = n, n
	}
	if n, err := unit.ParseSize(rec); recorded && err == nil {
		from.Rec, to.Rec = n, n
	}
	var all []map[string]string
	for _, r := range Rows(from.Size, to.Size, from.Rec, to.Rec, from != to && !sized && !recorded) {
		each := maps.Clone(given)
		if !sized {
			each["size"] = unit.FormatSize(r.Size)
		}
		if !recorded {
			each["bs"] = unit.FormatSize(r.Rec)
		}
		all = append(all, each)
	}
	if len(all) == 0 { // the record is larger than every file; the check refuses it later
		return []map[string]string{given}
	}
	return all
}
