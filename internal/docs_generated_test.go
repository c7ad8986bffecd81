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
		Settings            []struct{ Name, Default, Doc string }
	}
	Workloads []kindListing
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

func (k *kindListing) parameterRows() (rows []string) {
	for _, p := range k.Parameters {
		def, doc := p.Default, sentence(p.Doc)
		if p.Required {
			def = "(required)"
		}
		if len(p.Choices) > 0 {
			doc += " One of " + strings.Join(p.Choices, ", ") + "."
		}
		rows = append(rows, row("`"+p.Name+"`", def, doc))
	}
	return rows
}

func (k *kindListing) metricRows() (rows []string) {
	for _, m := range k.Metrics {
		doc := sentence(m.Doc)
		if m.Primary {
			doc += " **It decides.**"
		}
		rows = append(rows, row("`"+m.Name+"`", m.Unit, m.Better, doc))
	}
	return rows
}

// sharers are the kinds that have a row of a table of parameters in common, if there are at least three.
func (l *listing) sharers(row string) (kinds []string) {
	for _, k := range l.Workloads {
		if slices.Contains(k.parameterRows(), row) {
			kinds = append(kinds, "`"+k.Name+"`")
		}
	}
	if len(kinds) < 3 {
		return nil
	}
	return kinds
}

// unshared makes a table of the rows that a kind does not share with others, and a line that names the rest.
func (l *listing) unshared(rows []string, head ...string) []string {
	out, others := head, []string{}
	for _, r := range rows {
		if l.sharers(r) == nil {
			out = append(out, r)
			continue
		}
		_, name, _ := strings.Cut(r, "`")
		name, def, _ := strings.Cut(name, "`")
		def = strings.TrimSpace(strings.Split(def, "|")[1])
		if def != "" {
			def = "=" + def
		}
		others = append(others, "`"+name+def+"`")
	}
	if len(out) == len(head) {
		out = nil
	} else {
		out = append(out, "")
	}
	if len(others) > 0 {
		out = append(out, "[As others do](#shared-parameters): "+strings.Join(others, ", ")+".", "")
	}
	return out
}

// shared makes the table of the rows that several kinds have in common.
func (l *listing) shared() []string {
	out := []string{"| parameter | default | meaning | kinds |", "|---|---|---|---|"}
	for _, k := range l.Workloads {
		for _, r := range k.parameterRows() {
			kinds := l.sharers(r)
			if kinds != nil && kinds[0] == "`"+k.Name+"`" {
				out = append(out, r+" "+strings.Join(kinds, ", ")+" |")
			}
		}
	}
	return append(out, "")
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
	for _, s := range []string{"environments", "workloads", "shared parameters", "plan keys", "optional interfaces"} {
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
		out = append(out, "| kind | family | one unit of work | the metric that decides |", "|---|---|---|---|")
		for _, k := range l.Workloads {
			decides := ""
			for _, m := range k.Metrics {
				if m.Primary {
					decides = fmt.Sprintf("`%s` (%s)", m.Name, m.Unit)
				}
			}
			anchor := strings.ReplaceAll(k.Name, ".", "")
			out = append(out, row("[`"+k.Name+"`](#"+anchor+")", k.Family, "one "+k.WorkUnit, decides))
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
			out = append(out, "`-e NAME="+form+"`: "+sentence(e.Doc))
			if len(e.Settings) > 0 {
				out = append(out, "", "| setting | default | meaning |", "|---|---|---|")
			}
			for _, s := range e.Settings {
				out = append(out, row("`"+s.Name+"`", s.Default, sentence(s.Doc)))
			}
			return append(out, ""), nil
		}
		return nil, fmt.Errorf("there is no environment %q", of)
	case "workload":
		for _, k := range l.Workloads {
			if k.Name != of {
				continue
			}
			metrics := l.unshared(k.metricRows(), "| metric | unit | better | meaning |", "|---|---|---|---|")
			out = append(out, k.Doc, "")
			out = append(out, l.unshared(k.parameterRows(), "| parameter | default | meaning |", "|---|---|---|")...)
			return append(out, metrics...), nil
		}
		return nil, fmt.Errorf("there is no workload %q", of)
	case "shared parameters":
		return append(out, l.shared()...), nil
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

func row(cells ...string) string {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", `\|`)
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
