package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/unit"
)

// factRow is one fact of all targets side by side; "" where it is not known.
type factRow struct {
	name   string
	values []string // an entry for each target, cleaned
}

// differs tells whether the targets that tell this fact do not all tell the same.
func (r *factRow) differs() bool {
	first := ""
	for _, v := range r.values {
		if v == "" {
			continue
		}
		if first != "" && v != first {
			return true
		}
		first = v
	}
	return false
}

// factRows lays the targets' facts side by side: those of the driver, those seen inside, those of the controller.
func (m *Model) factRows() []factRow {
	f := &factTable{targets: len(m.Targets), at: map[string]int{}}
	for i := range m.Targets {
		t := &m.Targets[i]
		f.set(i, "spec", t.Spec)
		f.set(i, "neighbour", t.Beside)
		if t.Copies > 0 {
			f.set(i, "copies", strconv.Itoa(t.Copies))
		}
		f.set(i, "opened in", secondsText(t.OpenS))
		f.set(i, "emulated CPU", boolText(t.Emulated))
		if t.Error != nil {
			f.set(i, "error", t.Error.Message)
		}
		f.facts(i, "", &t.Inside)
		f.mount(i, t)
		f.facts(i, "outside: ", &t.Outside)
	}
	return f.rows
}

type factTable struct {
	targets int
	rows    []factRow
	at      map[string]int
}

func (f *factTable) set(target int, name, value string) {
	if value = clean(value); value == "" {
		return
	}
	at, ok := f.at[name]
	if !ok {
		at = len(f.rows)
		f.at[name] = at
		f.rows = append(f.rows, factRow{clean(name), make([]string, f.targets)})
	}
	f.rows[at].values[target] = value
}

func (f *factTable) facts(i int, prefix string, x *record.Facts) {
	for _, v := range [][2]string{
		{"system", x.OS}, {"architecture", x.Arch}, {"kernel", x.Kernel}, {"distribution", x.Distro},
		{"host name", x.Hostname}, {"processor", x.CPU},
		{"cores", countText(x.Cores)}, {"threads", countText(x.Threads)}, {"MHz", figureText(x.MHz)},
		{"memory", bytesText(x.MemoryBytes)},
		{"hypervisor", x.Hypervisor}, {"clock", x.Clock}, {"work directory", x.WorkDir}, {"file system", x.WorkFS},
		{"command", strings.Join(x.Command, " ")},
	} {
		f.set(i, prefix+v[0], v[1])
	}
	f.all(i, prefix, x.Settings)
	f.all(i, prefix, x.Extra)
}

func (f *factTable) all(i int, prefix string, texts map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(texts)) {
		f.set(i, prefix+k, texts[k])
	}
}

func (f *factTable) mount(i int, t *verdict.Target) {
	f.set(i, "mount in", t.Of)
	if x := t.Mount; x != nil {
		for _, v := range [][2]string{{"kind", x.Kind}, {"folder", x.Dir}, {"host folder", x.HostDir}, {"type", x.Type},
			{"source", x.Source},
			{"options", x.Options}, {"server", x.Server}, {"command", strings.Join(x.Command, " ")}} {
			f.set(i, "mount: "+v[0], v[1])
		}
		f.all(i, "mount: ", x.Settings)
	}
	if d := t.Durability; d != nil {
		f.set(i, "durability", durabilityText(d))
	}
	for _, p := range t.Card {
		f.set(i, "files: "+cmp.Or(p.Title, p.Name), p.Answer)
	}
}

// durabilityText is the verdict with its class and how far it was tested.
func durabilityText(d *record.Durability) string {
	text := d.Verdict
	if d.Class != "" {
		text += " (" + d.Class + ")"
	}
	if d.Layer != "" {
		text += ", observed to reach " + d.Layer
	}
	if d.Cuts > 0 {
		text += ", " + unit.Plural(d.Cuts, "power cut")
		if d.Verdict == record.NotDisproved && d.Bound > 0 {
			text += ", losses below " + percentText(d.Bound)
		}
	}
	if d.Text != "" {
		text += ": " + d.Text
	}
	return clean(text)
}

func countText(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func figureText(v float64) string {
	if !(v > 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func bytesText(n int64) string {
	if n <= 0 {
		return ""
	}
	return unit.Format(float64(n), "B")
}

func secondsText(s float64) string {
	if !(s > 0) {
		return ""
	}
	return durationText(s)
}

func boolText(v bool) string {
	if v {
		return "yes"
	}
	return ""
}
