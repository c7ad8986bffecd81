package internal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"tare/internal/bundle"
	"tare/internal/record"
)

// listing is what `tare list --format json` says.
type listing struct {
	Environments []struct {
		Name, Doc, Argument string
		Required            bool `json:"argument_required"`
		Settings            []setting
	}
	Workloads []kindListing
}

type setting struct{ Name, Default, Doc string }

// same tells whether two settings mean the same. A default that is described belongs to the meaning.
func (s setting) same(o setting) bool {
	described := strings.ContainsRune(s.Default+o.Default, ' ')
	return s.Name == o.Name && s.Doc == o.Doc && (s.Default == o.Default || !described)
}

type kindListing struct {
	Name, Family, Doc string
	WorkUnit          string `json:"work_unit"`
	Parameters        []struct {
		Name, Type, Default, Doc string
		Required                 bool
		Choices                  []string
	}
	Metrics []struct {
		Name, Unit, Better, Doc string
		Primary                 bool
	}
}

// entry is a parameter, a setting or a metric: what it is called, and what is said about it.
type entry struct {
	// Name is as one types it: with the default, if it has one that can be typed.
	Name string
	Doc  string
}

// same tells whether two entries mean the same, whatever their defaults are.
func (e entry) same(o entry) bool { return bare(e.Name) == bare(o.Name) && e.Doc == o.Doc }

// typed is a name with its default. A default of several words is a description: it follows the meaning.
func typed(name, def, doc string) entry {
	switch {
	case def == "":
	case strings.Contains(def, " "):
		doc += " Default: " + def + "."
	default:
		name += "=" + def
	}
	return entry{"`" + name + "`", doc}
}

func (k *kindListing) parameters() (all []entry) {
	for _, p := range k.Parameters {
		e := typed(p.Name, p.Default, sentence(p.Doc))
		if p.Required {
			e.Doc += " Required."
		}
		if slices.ContainsFunc(p.Choices, func(c string) bool { return !says(p.Doc, c) }) {
			e.Doc += " One of " + strings.Join(p.Choices, ", ") + "."
		}
		all = append(all, e)
	}
	return all
}

// says tells whether a description has a word.
func says(doc, word string) bool {
	between := func(r rune) bool { return strings.ContainsRune(" :;,()=", r) }
	return slices.Contains(strings.FieldsFunc(strings.TrimSuffix(doc, "."), between), word)
}

// metrics are a kind's. primary names the one that decides.
func (k *kindListing) metrics() (all []entry, primary string) {
	for _, m := range k.Metrics {
		e := entry{"`" + m.Name + "`", sentence(m.Doc)}
		if !tells(m.Name, m.Unit) {
			e.Doc += " In " + m.Unit + "."
		}
		if better := map[bool]string{true: "higher", false: "lower"}[rising(m.Unit)]; better != m.Better {
			e.Doc += " Better when " + m.Better + "."
		}
		if m.Primary {
			primary = e.Name
		}
		all = append(all, e)
	}
	return all, primary
}

// tells tells whether the name of a metric has its unit: `p50_us` is in µs, and `seconds` is in seconds.
func tells(name, unit string) bool {
	unit, rate := strings.CutSuffix(unit, "/s")
	word := map[string]string{"s": "seconds", "MiB": "mib", "B": "bytes", "x": "over"}[unit]
	if word == "" {
		word = unit
	}
	words := strings.Split(name, "_")
	return slices.Contains(words, word) && !rate || rate && strings.HasSuffix(name, "_per_second") &&
		(!strings.HasSuffix(unit, "B") || slices.Contains(words, word))
}

// rising tells whether a figure in that unit is usually better when it is higher.
func rising(unit string) bool { return strings.Contains(unit, "/s") || unit == "%" }

// entries are all of a kind.
func (k *kindListing) entries() []entry {
	metrics, _ := k.metrics()
	return append(k.parameters(), metrics...)
}

// sharers are the kinds that have an entry in common, if there are several.
func (l *listing) sharers(e entry) (kinds []string) {
	for i := range l.Workloads {
		if slices.ContainsFunc(l.Workloads[i].entries(), e.same) {
			kinds = append(kinds, l.Workloads[i].Name)
		}
	}
	if len(kinds) < 2 {
		return nil
	}
	return kinds
}

// unshared lists the entries of a kind, each a what, that it does not share with others, and names the rest.
func (l *listing) unshared(what string, all []entry, primary string) (out []string) {
	var own []entry
	var others []string
	for _, e := range all {
		shared := l.sharers(e) != nil
		if e.Name == primary {
			e.Name = "**" + e.Name + "**"
		}
		if shared {
			others = append(others, e.Name)
		} else {
			own = append(own, e)
		}
	}
	if len(own) > 0 {
		out = append(append(out, strings.ToUpper(what[:1])+what[1:]+"s:", ""), items(own)...)
		out = append(out, "")
	}
	if len(others) > 0 {
		out = append(out, "[Shared "+what+"s](#shared-"+what+"s): "+strings.Join(others, ", ")+".", "")
	}
	return out
}

// severalFamilies is the heading of what kinds of different families share.
const severalFamilies = "Of several families"

// family is what the names of kinds begin with, if it is the same.
func family(kinds []string) string {
	head, _, _ := strings.Cut(kinds[0], ".")
	for _, k := range kinds {
		if !strings.HasPrefix(k, head+".") {
			return severalFamilies
		}
	}
	return "`" + head + ".*`"
}

// shared lists what several kinds have in common, by family. A kind's own section says which of it the kind has; only
// where a family has a name in two meanings, the list says whose each is.
func (l *listing) shared(of func(*kindListing) []entry) (out []string) {
	var families []string
	rows := map[string][]entry{}
	for i := range l.Workloads {
		for _, e := range of(&l.Workloads[i]) {
			kinds := l.sharers(e)
			if kinds == nil || kinds[0] != l.Workloads[i].Name {
				continue
			}
			f := family(kinds)
			if rows[f] == nil {
				families = append(families, f)
			}
			rows[f] = append(rows[f], e)
		}
	}
	slices.SortStableFunc(families, func(a, b string) int {
		return strings.Compare(strings.ReplaceAll(a, severalFamilies, "~"), strings.ReplaceAll(b, severalFamilies, "~"))
	})
	for _, f := range families {
		names := map[string]int{}
		for _, e := range rows[f] {
			names[bare(e.Name)]++
		}
		for i, e := range rows[f] {
			kinds := l.sharers(e)
			if names[bare(e.Name)] > 1 {
				rows[f][i].Doc += " (`" + strings.Join(kinds, "`, `") + "`)"
			}
			if !l.allHave(kinds, e) {
				rows[f][i].Name = "`" + bare(e.Name) + "`"
			}
		}
		out = append(append(out, "**"+f+"**", ""), items(rows[f])...)
		out = append(out, "")
	}
	return out
}

// allHave tells whether an entry has the same default in all of these kinds.
func (l *listing) allHave(kinds []string, e entry) bool {
	for i := range l.Workloads {
		if slices.Contains(kinds, l.Workloads[i].Name) && !slices.Contains(l.Workloads[i].entries(), e) {
			return false
		}
	}
	return true
}

// bare is a typed name without its default.
func bare(name string) string {
	name, _, _ = strings.Cut(name, "=")
	return strings.Trim(name, "`")
}

// items has an item for each meaning.
func items(all []entry) (list []string) {
	var docs []string
	names := map[string][]string{}
	for _, e := range all {
		if names[e.Doc] == nil {
			docs = append(docs, e.Doc)
		}
		names[e.Doc] = append(names[e.Doc], e.Name)
	}
	for _, d := range docs {
		list = append(list, "- "+strings.Join(names[d], ", ")+": "+d)
	}
	return list
}

var generatedRE = regexp.MustCompile(`^<!-- generated: (.*) -->$`)

// TestDocsGenerated holds that the reference sections are what the program's own tables say, and that every
// environment, workload, key and field has one.
func TestDocsGenerated(t *testing.T) {
	l := &listing{}
	out, err := command(t, t.TempDir(), "tare list --format json").Output()
	if err != nil {
		t.Fatalf("tare list: %v", err)
	}
	if err := json.Unmarshal(out, l); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, doc := range documents(t) {
		lines, _ := readDocument(t, doc)
		var next []string
		for i := 0; i < len(lines); i++ {
			next = append(next, lines[i])
			m := generatedRE.FindStringSubmatch(lines[i])
			if m == nil {
				continue
			}
			seen[m[1]] = true
			want, err := l.generate(m[1])
			if err != nil {
				t.Errorf("%s:%d: %v", doc, i+1, err)
			}
			end := i + 1
			for end < len(lines) && lines[end] != "<!-- end -->" {
				end++
			}
			if end == len(lines) {
				t.Fatalf("%s:%d: no <!-- end --> follows", doc, i+1)
			}
			if got := lines[i+1 : end]; !slices.Equal(got, want) && !*update {
				t.Errorf("%s:%d: %s is not what the program says; run: go test ./internal -run Docs -update", doc, i+1,
					m[1])
			}
			next = append(next, want...)
			i = end - 1
		}
		if *update && !slices.Equal(next, lines) {
			if err := os.WriteFile(doc, []byte(strings.Join(next, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, e := range l.Environments {
		if !seen["environment "+e.Name] {
			t.Errorf("no document has the settings of %s: <!-- generated: environment %s -->", e.Name, e.Name)
		}
	}
	for _, k := range l.Workloads {
		if !seen["workload "+k.Name] {
			t.Errorf("no document defines %s: <!-- generated: workload %s -->", k.Name, k.Name)
		}
	}
	for _, s := range []string{"environments", "workloads", "shared parameters", "shared metrics", "plan keys",
		"optional interfaces"} {
		if !seen[s] {
			t.Errorf("no document has <!-- generated: %s -->", s)
		}
	}
}

// generate makes a section.
func (l *listing) generate(name string) ([]string, error) {
	topic, of, _ := strings.Cut(name, " ")
	if topic == "shared" || topic == "optional" {
		topic = name
	}
	out := []string{""}
	switch topic {
	case "environments":
		out = append(out, "| driver | what it is |", "|---|---|")
		for _, e := range l.Environments {
			out = append(out, row("[`"+e.Name+"`](#"+e.Name+")", sentence(e.Doc)))
		}
	case "workloads":
		out = append(out, "| kind | unit of work |", "|---|---|")
		for _, k := range l.Workloads {
			anchor := strings.ReplaceAll(k.Name, ".", "")
			out = append(out, row("[`"+k.Name+"`](#"+anchor+")", k.WorkUnit))
		}
	case "environment":
		for _, e := range l.Environments {
			if e.Name != of {
				continue
			}
			form := e.Name
			if e.Argument != "" {
				form += ":" + e.Argument
				if !e.Required {
					form = e.Name + "[:" + e.Argument + "]"
				}
			}
			out = append(out, "`-e NAME="+form+"`")
			return append(out, l.settings(e.Name, e.Settings)...), nil
		}
		return nil, fmt.Errorf("there is no environment %q", of)
	case "workload":
		for _, k := range l.Workloads {
			if k.Name != of {
				continue
			}
			metrics, primary := k.metrics()
			out = append(out, k.Doc, "")
			out = append(out, l.unshared("parameter", k.parameters(), "")...)
			return append(out, l.unshared("metric", metrics, primary)...), nil
		}
		return nil, fmt.Errorf("there is no workload %q", of)
	case "shared parameters":
		return append(out, l.shared((*kindListing).parameters)...), nil
	case "shared metrics":
		metrics := func(k *kindListing) []entry {
			all, _ := k.metrics()
			return all
		}
		return append(out, l.shared(metrics)...), nil
	case "plan":
		return planKeys()
	case "optional interfaces":
		rows, err := optionalInterfaces()
		if err != nil {
			return nil, err
		}
		out = append(out, "| `env.` | it says | asked by | assumed without it |", "|---|---|---|---|")
		for _, r := range rows {
			out = append(out, row("`"+r[0]+"`", r[1], "`"+strings.ReplaceAll(r[2], ", ", "`, `")+"`", r[3]))
		}
	default:
		return nil, fmt.Errorf("nothing generates %q", name)
	}
	return append(out, ""), nil
}

// described are drivers whose section describes a setting that other drivers have as well, although theirs come first.
var described = []string{"ssh"}

// settings lists a driver's settings. What another driver's section describes in the same words is only
// named, with a link.
func (l *listing) settings(driver string, all []setting) (out []string) {
	owner := func(s setting) string {
		others := []string{}
		for _, e := range l.Environments {
			if slices.ContainsFunc(e.Settings, s.same) {
				others = append(others, e.Name)
			}
		}
		for _, d := range described {
			if slices.Contains(others, d) {
				return d
			}
		}
		return others[0]
	}
	var rows []entry
	var as []string
	names := map[string][]string{}
	for _, s := range all {
		of, named := owner(s), typed(s.Name, s.Default, sentence(s.Doc))
		if of == driver {
			if when, rest, ok := strings.Cut(s.Doc, ": as in the driver "); ok {
				other, _, _ := strings.Cut(rest, ".")
				of = when + ", as [`" + other + "`](#" + other + "): "
			}
		} else {
			of = "As [`" + of + "`](#" + of + "): "
		}
		if of == driver {
			rows = append(rows, named)
			continue
		}
		if names[of] == nil {
			as = append(as, of)
		}
		names[of] = append(names[of], named.Name)
	}
	if len(rows) > 0 {
		out = append(append(out, ""), items(rows)...)
	}
	for _, of := range as {
		out = append(out, "", of+strings.Join(names[of], ", ")+".")
	}
	return append(out, "")
}

// literal are values of settings that a description begins with; they stay as they are typed.
var literal = []string{"yes", "quick", "memcpy"}

// sentence begins with a capital, unless it begins with something typed literally, and ends with a full stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	head, _, _ := strings.Cut(s, " ")
	if !slices.Contains(literal, head) && strings.Trim(head, "abcdefghijklmnopqrstuvwxyz,'-") == "" {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// cell is a text as a cell of a table has it.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func row(cells ...string) string {
	for i, c := range cells {
		cells[i] = cell(c)
	}
	return strings.Join(append([]string{"|"}, strings.Join(cells, " | "), "|"), " ")
}

// property is the part of a JSON Schema that a table of fields needs. The order of the file is kept.
type property struct {
	Name string
	Ref  string `json:"$ref"`
	Type any    `json:"type"`
	Doc  string `json:"description"`
	Enum []any  `json:"enum"`
	// Const is any value.
	Const any       `json:"const"`
	Items *property `json:"items"`
}

// planKeys makes a table of the plan's keys, from its schema.
func planKeys() ([]string, error) {
	src, err := os.ReadFile(filepath.Join(root, "docs", "plan.schema.json"))
	if err != nil {
		return nil, err
	}
	var doc struct {
		Properties json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(src, &doc); err != nil {
		return nil, err
	}
	fields, err := ordered(doc.Properties)
	if err != nil {
		return nil, err
	}
	out := []string{"", "| key | form | meaning |", "|---|---|---|"}
	for _, p := range fields {
		out = append(out, row("`"+p.Name+"`", p.form(), sentence(p.Doc)))
	}
	return append(out, ""), nil
}

func ordered(src json.RawMessage) ([]property, error) {
	d := json.NewDecoder(bytes.NewReader(src))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var out []property
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		p := property{}
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		p.Name, _ = key.(string)
		out = append(out, p)
	}
	return out, nil
}

func (p *property) form() string {
	switch {
	case p.Const != nil:
		return fmt.Sprintf("`%v`", p.Const)
	case len(p.Enum) > 0:
		var words []string
		for _, e := range p.Enum {
			words = append(words, fmt.Sprintf("`%v`", e))
		}
		return strings.Join(words, ", ")
	case p.Ref != "":
		return strings.TrimPrefix(p.Ref, "#/$defs/")
	case p.Type == "array" && p.Items != nil:
		return "list of " + p.Items.form()
	case p.Type != nil:
		return fmt.Sprint(p.Type)
	}
	return "several forms, see below"
}

// reportSchema is the schema that scripts are promised.
func reportSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join(root, "docs", "report.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func checkReport(s *jsonschema.Schema, src []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// TestDocsJSON holds that the JSON in the manual is JSON of the kind it is said to be.
func TestDocsJSON(t *testing.T) {
	schema := reportSchema(t)
	kinds := map[string]int{}
	for _, doc := range documents(t) {
		_, list := readDocument(t, doc)
		for _, b := range list {
			if b.lang != "json" {
				continue
			}
			src := []byte(strings.Join(b.text, "\n"))
			check := func(mark string, f func() error) {
				if _, ok := b.mark(mark); !ok {
					return
				}
				kinds[mark]++
				if err := f(); err != nil {
					t.Errorf("%s:%d: %v", doc, b.first, err)
				}
			}
			strict := func(v any) func() error {
				return func() error {
					d := json.NewDecoder(bytes.NewReader(src))
					d.DisallowUnknownFields()
					return d.Decode(v)
				}
			}
			check("report", func() error { return checkReport(schema, src) })
			check("trial", strict(&struct {
				record.Trial
				Chain string `json:"chain"`
			}{}))
			check("manifest", strict(&bundle.Manifest{}))
		}
	}
	for _, mark := range []string{"report", "trial", "manifest"} {
		if kinds[mark] == 0 {
			t.Errorf("no document shows a %s", mark)
		}
	}
}
