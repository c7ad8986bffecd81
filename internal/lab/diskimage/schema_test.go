package diskimage

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write report.schema.json")

// schemaOf describes a type in the form that encoding/json writes.
func schemaOf(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		for i := range t.NumField() {
			if !t.Field(i).IsExported() {
				continue
			}
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			properties[name] = schemaOf(t.Field(i).Type)
			if options != "omitempty" {
				required = append(required, name)
			}
		}
		return map[string]any{"type": "object", "properties": properties, "required": required,
			"additionalProperties": false}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	default:
		return map[string]any{"type": "integer"}
	}
}

// TestSchemaIsCurrent compares the published schema with the types.
func TestSchemaIsCurrent(t *testing.T) {
	s := schemaOf(reflect.TypeFor[Report]())
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema",
		"what tare disk inspect --format json writes"
	s["properties"].(map[string]any)["schema"] = map[string]any{"const": Schema}
	want, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("report.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("report.schema.json is not that of the types: go test ./internal/lab/diskimage -run Schema -update")
	}
}
