package report

import (
	"encoding/json"
	"iter"
	"os"
	"reflect"
	"strings"
	"testing"

	"tare/internal/sys/sql/log"
)

// TestSchemaIsWhole holds that the published schemas, from one of which the page's types are made, have every field
// that the JSON report and the summary of a log can have, and none that they cannot.
func TestSchemaIsWhole(t *testing.T) {
	for name, of := range map[string]struct {
		reflect.Type
		least int // types
	}{
		"report":      {reflect.TypeFor[jsonReport](), 20},
		"sql-inspect": {reflect.TypeFor[log.Summary](), 9},
	} {
		src, err := os.ReadFile("../../../docs/" + name + ".schema.json")
		if err != nil {
			t.Fatal(err)
		}
		w := &schemaWalk{T: t, seen: map[reflect.Type]bool{}}
		if err := json.Unmarshal(src, &w.root); err != nil {
			t.Fatal(err)
		}
		w.same(name, of.Type, w.root)
		if len(w.seen) < of.least {
			t.Errorf("%s: only %d types were compared", name, len(w.seen))
		}
	}
}

type schemaWalk struct {
	*testing.T
	root map[string]any
	seen map[reflect.Type]bool
}

// same compares a type with its schema, and so on with what is in it.
func (w *schemaWalk) same(path string, t reflect.Type, schema map[string]any) {
	if ref, ok := schema["$ref"].(string); ok {
		def, _ := w.root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		w.same(path, t, def)
		return
	}
	if t.Implements(reflect.TypeFor[json.Marshaler]()) {
		return // its form is its own
	}
	switch t.Kind() {
	case reflect.Pointer:
		w.same(path, t.Elem(), schema)
	case reflect.Slice:
		items, _ := schema["items"].(map[string]any)
		w.same(path+"[]", t.Elem(), items)
	case reflect.Struct:
		if w.seen[t] {
			return
		}
		w.seen[t] = true
		fields, _ := schema["properties"].(map[string]any)
		have := map[string]bool{}
		for name, f := range fieldsOf(t) {
			if !f.IsExported() {
				continue
			}
			have[name] = true
			if field, ok := fields[name].(map[string]any); ok {
				w.same(path+"."+name, f.Type, field)
			} else {
				w.Errorf("the schema does not have %s.%s", path, name)
			}
		}
		for name := range fields {
			if !have[name] {
				w.Errorf("the schema has %s.%s, which no report has", path, name)
			}
		}
	}
}

// fieldsOf goes through the members that a struct has in JSON, also by what it embeds.
func fieldsOf(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && name == "" {
				fieldsOf(f.Type)(yield)
			} else if name != "-" && !yield(name, f) {
				return
			}
		}
	}
}
