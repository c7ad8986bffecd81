package plan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"tare/internal/suggest"
	"tare/internal/sys/sbatch"
	"tare/internal/sys/shell"
	"tare/internal/unit"
)

// Slurm says how a fleet's jobs are asked for on Slurm. It decides nothing of what is measured, so that it is no part
// of the plan's identity. What is not said is empty or 0.
type Slurm struct {
	Partition   string        `yaml:"partition,omitempty" json:"partition,omitempty"`
	Account     string        `yaml:"account,omitempty" json:"account,omitempty"`
	QOS         string        `yaml:"qos,omitempty" json:"qos,omitempty"`
	Constraint  string        `yaml:"constraint,omitempty" json:"constraint,omitempty"`
	Reservation string        `yaml:"reservation,omitempty" json:"reservation,omitempty"`
	Time        time.Duration `yaml:"time,omitempty" json:"time,omitempty"`     // limit of a job; whole minutes
	Memory      int64         `yaml:"memory,omitempty" json:"memory,omitempty"` // MiB of each node, or AllMemory
	// Sbatch are further arguments for sbatch, as in #SBATCH lines: each has an option, or several.
	Sbatch []string `yaml:"sbatch,omitempty" json:"sbatch,omitempty"`
}

// AllMemory asks for all the memory of a node.
const AllMemory = -1

// Bounds of the section slurm.
const (
	minLimit   = time.Minute
	maxLimit   = 365 * 24 * time.Hour
	minMemory  = 16 << 20
	maxMemory  = 1 << 50
	allMemory  = "all"
	maxOption  = 200 // bytes of a name or an expression
	maxSbatch  = 64
	sbatchLine = 1000 // bytes
)

// slurmKey is one key of the section slurm.
type slurmKey struct {
	name   string
	option string // of sbatch; "" for the list of such options
	doc    string
	text   func(*Slurm) *string // for keys that are text; nil for the others
}

func slurmKeys() []slurmKey {
	return []slurmKey{
		{"partition", "partition", "partition of the jobs, or several with commas between",
			func(s *Slurm) *string { return &s.Partition }},
		{"account", "account", "account that the jobs are charged to", func(s *Slurm) *string { return &s.Account }},
		{"qos", "qos", "quality of service", func(s *Slurm) *string { return &s.QOS }},
		{"constraint", "constraint", "features that a node must have, such as icelake&nvme",
			func(s *Slurm) *string { return &s.Constraint }},
		{"reservation", "reservation", "reservation that the jobs run in",
			func(s *Slurm) *string { return &s.Reservation }},
		{"time", "time", "time limit of each job, in whole minutes; without it a tenth more than the plan's budget, " +
			"and five minutes", nil},
		{"memory", "mem", "memory of each node that a job gets, such as 8GiB, or all", nil},
		{"sbatch", "", "further arguments for sbatch, as in #SBATCH lines", nil},
	}
}

func slurmNames() (names []string) {
	for _, k := range slurmKeys() {
		names = append(names, k.name)
	}
	return names
}

// SbatchOptions are the options of sbatch that keys of the section slurm stand for, as they are typed.
func SbatchOptions() (options []string) {
	for _, k := range slurmKeys() {
		if k.option != "" {
			options = append(options, "--"+k.option+"=")
		}
	}
	return options
}

// slurm reads the section slurm.
func (r *reader) slurm(d *draft, n *node) {
	if n.kind != mapping {
		r.p.add(n.at, "expected options of Slurm's such as { partition: batch, time: 2h }, found %s", n.kind)
		return
	}
	s, said := &Slurm{}, map[string]*entry{}
	var more *node
	for _, e := range n.keys {
		i := slices.IndexFunc(slurmKeys(), func(k slurmKey) bool { return k.name == e.key })
		if i < 0 {
			r.p.add(e.at, "slurm: there is no key %q%s", e.key, suggest.MeantOrAll(e.key, slurmNames(), "there are:"))
			continue
		}
		if e.value.kind == null {
			continue
		}
		switch k := slurmKeys()[i]; {
		case k.text != nil:
			*k.text(s) = r.slurmText(e)
			said[k.option] = e
		case e.key == "time":
			s.Time = r.limit(e.value)
			said[k.option] = e
		case e.key == "memory":
			s.Memory = r.nodeMemory(e.value)
			said[k.option] = e
		default:
			more = e.value
		}
	}
	if more != nil {
		s.Sbatch = r.sbatch(more, said)
	}
	if len(said) > 0 || len(s.Sbatch) > 0 {
		d.Slurm = s
	}
}

// slurmText reads a name or an expression of Slurm's. It goes to sbatch as it is, without a shell.
func (r *reader) slurmText(e *entry) string {
	s := r.text(e.value, maxOption)
	if e.value.kind == scalar && (s == "" || strings.ContainsFunc(s, func(c rune) bool {
		return !unicode.IsPrint(c) || unicode.IsSpace(c)
	})) {
		r.p.add(e.value.at, "slurm: %s: %q must not be empty, nor contain blanks or unprintable characters", e.key, s)
	}
	return s
}

// limit reads a time limit. Slurm's own forms are not durations, and a bare number of them is minutes.
func (r *reader) limit(n *node) time.Duration {
	const expected = "a duration such as 30m or 12h"
	s, ok := r.value(n, expected)
	if !ok {
		return 0
	}
	v, err := time.ParseDuration(s)
	switch {
	case err != nil:
		hint := ""
		if strings.Trim(s, "0123456789") == "" && s != "" {
			hint = fmt.Sprintf("; did you mean %q?", s+"m")
		}
		r.p.add(n.at, "expected %s, found %q%s", expected, s, hint)
	case v < minLimit || v > maxLimit:
		r.p.add(n.at, "%s is out of range: expected a time limit from %v to %v", s, minLimit, maxLimit)
	}
	return (v + time.Minute - 1).Truncate(time.Minute)
}

// nodeMemory reads the memory of a node, in MiB.
func (r *reader) nodeMemory(n *node) int64 {
	s, ok := r.value(n, "a size such as 8GiB, or all")
	if !ok {
		return 0
	}
	if s == allMemory {
		return AllMemory
	}
	v, err := unit.ParseSize(s)
	switch {
	case err != nil:
		r.p.add(n.at, "expected a size such as 8GiB, or all, found %q", s)
	case v < minMemory || v > maxMemory:
		r.p.add(n.at, "%s is out of range: expected from %s to %s, or all", s, unit.FormatSize(minMemory),
			unit.FormatSize(maxMemory))
	}
	return (v + 1<<20 - 1) >> 20
}

// sbatch reads arguments for sbatch: one text, or a list of them. said are the options that other keys have set.
func (r *reader) sbatch(n *node, said map[string]*entry) (lines []string) {
	items := []*node{n}
	if n.kind == list {
		items = n.items
	}
	if len(items) > maxSbatch {
		r.p.add(n.at, "slurm: sbatch: %d arguments are more than %d", len(items), maxSbatch)
		return nil
	}
	first := map[string]pos{}
	for _, item := range items {
		s, ok := r.value(item, "an argument for sbatch such as --mail-type=END")
		if !ok {
			continue
		}
		lines = append(lines, s)
		words, err := shell.Split(s)
		names := sbatch.Names(words)
		isOption := len(names) > 0 && strings.HasPrefix(words[0], "-")
		if isOption {
			err = sbatch.Check(words)
		}
		switch {
		case len(s) > sbatchLine:
			r.p.add(item.at, "slurm: sbatch: this has %d bytes; at most %d fit here", len(s), sbatchLine)
		case err != nil:
			r.p.add(item.at, "slurm: sbatch: %v", err)
		case !isOption:
			r.p.add(item.at, "slurm: sbatch: expected an option of sbatch such as --mail-type=END, found %q", s)
		case strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
			r.p.add(item.at, "slurm: sbatch: %q has a character that cannot be printed", s)
		}
		for _, name := range names {
			at, twice := first[name]
			switch e := said[name]; {
			case e != nil:
				r.p.add(item.at, "slurm: sbatch: --%s says what %s in line %d says: write it once", name, e.key,
					e.at.line)
			case sbatch.Own(name):
				r.p.add(item.at, "slurm: sbatch: tare sets --%s itself (one job, one task a node): leave it out", name)
			case twice:
				r.p.add(item.at, "slurm: sbatch: --%s is given twice; the first is in line %d", name, at.line)
			}
			first[name] = item.at
		}
	}
	return lines
}

// Arguments are those for sbatch, without those whose options are among over, by their long names: what is said
// elsewhere counts more.
func (s *Slurm) Arguments(over []string) (args []string) {
	if s == nil {
		return nil
	}
	for _, k := range slurmKeys() {
		if value := s.value(k); value != "" && !contains(over, k.option) {
			args = append(args, "--"+k.option+"="+value)
		}
	}
	for _, line := range s.Sbatch {
		words, err := shell.Split(line)
		names := sbatch.Names(words)
		if err != nil || !slices.ContainsFunc(names, func(n string) bool { return !contains(over, n) }) {
			continue
		}
		args = append(args, words...)
	}
	return args
}

// value is what sbatch is told for a key; "" for nothing.
func (s *Slurm) value(k slurmKey) string {
	switch {
	case k.text != nil:
		return *k.text(s)
	case k.name == "time" && s.Time > 0:
		return fmt.Sprint(int64(s.Time / time.Minute))
	case k.name == "memory" && s.Memory == AllMemory:
		return "0"
	case k.name == "memory" && s.Memory > 0:
		return fmt.Sprintf("%dM", s.Memory)
	}
	return ""
}

func (s *Slurm) clone() *Slurm {
	if s == nil {
		return nil
	}
	c := *s
	c.Sbatch = slices.Clone(s.Sbatch)
	return &c
}

func marshalSlurm(b *bytes.Buffer, s *Slurm) {
	if s == nil {
		return
	}
	b.WriteString("slurm:\n")
	for _, k := range slurmKeys() {
		if k.text != nil && *k.text(s) != "" {
			fmt.Fprintf(b, "  %s: %s\n", k.name, yamlText(*k.text(s)))
		}
	}
	if s.Time > 0 {
		fmt.Fprintf(b, "  time: %s\n", s.Time)
	}
	switch {
	case s.Memory == AllMemory:
		fmt.Fprintf(b, "  memory: %s\n", allMemory)
	case s.Memory > 0:
		fmt.Fprintf(b, "  memory: %dMiB\n", s.Memory)
	}
	if len(s.Sbatch) > 0 {
		b.WriteString("  sbatch:\n")
		for _, line := range s.Sbatch {
			fmt.Fprintf(b, "    - %s\n", yamlText(line))
		}
	}
}

func slurmSchema() object {
	props := object{}
	for _, k := range slurmKeys() {
		text := object{"type": []string{"string", "number"}, "pattern": `^\S+$`}
		switch k.name {
		case "time":
			text = ref("duration")
		case "memory":
			text = object{"anyOf": []object{{"const": allMemory}, ref("size")}}
		case "sbatch":
			text = object{"anyOf": []object{{"type": "string"},
				{"type": "array", "maxItems": maxSbatch, "items": object{"type": "string"}}}}
		}
		text["description"] = k.doc
		props[k.name] = text
	}
	return object{"type": "object", "properties": props, "additionalProperties": false}
}

// withoutSlurm leaves the lines of the section slurm out of a plan's text: they say nothing of what is measured.
func withoutSlurm(src []byte) []byte {
	var out []byte
	inside := false
	for line := range bytes.Lines(src) {
		if len(bytes.TrimSpace(line)) > 0 && !bytes.ContainsRune([]byte(" \t#}]"), rune(line[0])) {
			key, _, ok := bytes.Cut(line, []byte(":"))
			inside = ok && string(bytes.Trim(bytes.TrimSpace(key), `"'`)) == "slurm"
		}
		if !inside {
			out = append(out, line...)
		}
	}
	return out
}
