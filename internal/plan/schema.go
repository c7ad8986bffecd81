package plan

import (
	"bytes"
	"encoding/json"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
)

type object = map[string]any

// JSONSchema describes the plan file for editors and other tools, as JSON Schema 2020-12. It is made from the same
// tables that Parse reads. What only makes sense together (a baseline that exists, attainable looks) it cannot say.
func JSONSchema(t Tables) []byte {
	props := object{}
	for _, f := range fields() {
		s := fieldSchema(f.name, &t)
		s["description"] = f.doc
		props[f.name] = s
	}
	defs := object{
		"duration": object{"type": "string", "pattern": `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$|^0$`,
			"examples": []string{"300ms", "10m"}},
		"share": object{"anyOf": []object{
			{"type": "number", "exclusiveMinimum": 0, "maximum": 1},
			{"type": "string", "pattern": `^ *[0-9.]+([eE]-?[0-9]+)? *%?$`},
		}},
		"name": object{"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$"},
		"target": object{"type": "string",
			"pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}(:[A-Za-z0-9][A-Za-z0-9_.-]{0,39})?$"},
		"scalar": object{"type": []string{"string", "number", "boolean"}},
		"size": object{"anyOf": []object{{"type": "integer", "minimum": 0},
			{"type": "string", "pattern": `^[0-9][0-9._]* *([kKMGTP](i?B)?|B)?$`}}},
		"int": object{"anyOf": []object{{"type": "integer"}, {"type": "string", "pattern": `^-?[0-9][0-9_]*$`}}},
		"bool": object{"anyOf": []object{{"type": "boolean"},
			{"enum": []any{"yes", "no", "true", "false", "on", "off", "1", "0", 0, 1}}}},
	}
	root := object{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"$id":                  "https://tare.invalid/plan.schema.json",
		"title":                "tare plan, schema 1",
		"type":                 "object",
		"required":             []string{"workloads"},
		"additionalProperties": false,
		"properties":           props,
		"$defs":                defs,
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		panic("plan: schema: " + err.Error()) // only maps, slices and strings are in it
	}
	return b.Bytes()
}

func ref(name string) object { return object{"$ref": "#/$defs/" + name} }

func fieldSchema(name string, t *Tables) object {
	switch name {
	case "schema":
		return object{"const": Schema}
	case "name", "question":
		return object{"type": "string"}
	case "baseline":
		return ref("target")
	case "seed":
		return object{"type": "integer", "minimum": 0}
	case "mode":
		return object{"enum": []Mode{Quick, Full}}
	case "trial", "budget":
		return ref("duration")
	case "sessions", "most_sessions":
		return object{"type": "integer", "minimum": 1, "maximum": MaxSessions}
	case "blocks":
		return object{"type": "integer", "minimum": 1, "maximum": MostBlocks}
	case "looks":
		return object{"type": "array", "minItems": 1, "maxItems": maxLooks,
			"items": object{"type": "integer", "minimum": 1, "maximum": MostBlocks}}
	case "cards":
		return ref("bool")
	case "energy":
		return energySchema()
	case "screen":
		return object{"type": "integer", "minimum": 1, "maximum": maxEnvironments}
	case "missing":
		return object{"enum": []string{Skip, "fail"}}
	case "environments":
		return environmentsSchema(t)
	case "beside":
		return besideSchema()
	case "copies":
		return copiesSchema()
	case "slurm":
		return slurmSchema()
	case "workloads":
		return workloadsSchema(t)
	default: // alpha, look_alpha, margin, tail_margin, precision
		return ref("share")
	}
}

func environmentsSchema(t *Tables) object {
	forms := []object{
		{"type": "null"},
		{"type": "string"},
		{"type": "object", "required": []string{"from"}, "not": object{"required": []string{"driver"}},
			"properties":           object{"from": ref("target"), "against": ref("target")},
			"additionalProperties": object{"type": []string{"string", "number", "boolean", "null"}}},
		{"type": "object", "required": []string{"spec"},
			"properties": object{"spec": object{"type": "string"}, "from": ref("target"),
				"against": ref("target")},
			"additionalProperties": false},
	}
	seen := map[string]bool{}
	for _, d := range t.Drivers.All() {
		forms = append(forms, driverSchema("driver", d.Name, d.Doc, d.ArgDoc, d.ArgNeeds, d.Settings))
		for _, m := range d.Mounts {
			if !seen[m.Name] {
				seen[m.Name] = true
				forms = append(forms, driverSchema("kind", m.Name, m.Doc, m.ArgDoc, m.ArgNeeds,
					mountSettings(t, m.Name)))
			}
		}
	}
	return object{"anyOf": []object{
		{"type": "object", "minProperties": 1, "maxProperties": maxEnvironments, "propertyNames": ref("target"),
			"additionalProperties": object{"anyOf": forms}},
		{"type": "array", "minItems": 1, "maxItems": maxEnvironments, "items": object{"type": "string"}},
	}}
}

// besideSchema is that of the neighbours. Their work has the forms of any.
func besideSchema() object {
	targets := object{"type": "array", "minItems": 1, "items": ref("target")}
	return object{"type": "object", "maxProperties": maxNeighbours, "propertyNames": ref("name"),
		"additionalProperties": object{"type": "object", "required": []string{"in", "workload"},
			"properties": object{
				"in": object{"anyOf": []object{ref("target"), {"type": "object", "minProperties": 1,
					"propertyNames": ref("target"), "additionalProperties": ref("target")}}},
				"workload": object{"$ref": "#/properties/workloads/items"},
				"targets":  object{"anyOf": []object{ref("target"), targets}},
			}, "additionalProperties": false}}
}

func copiesSchema() object {
	number := object{"type": "integer", "minimum": 2, "maximum": MostCopies}
	return object{"anyOf": []object{number, {"type": "object", "properties": object{
		"max": number,
		"steps": object{"type": "array", "minItems": 1, "maxItems": maxSteps,
			"items": object{"type": "integer", "minimum": 1, "maximum": MostCopies}},
		"floor":   ref("share"),
		"targets": object{"anyOf": []object{ref("target"), {"type": "array", "minItems": 1, "items": ref("target")}}},
	}, "additionalProperties": false}}}
}

// mountSettings are the settings of a kind of mount over all drivers that have it.
func mountSettings(t *Tables, kind string) []env.Setting {
	var all []env.Setting
	seen := map[string]bool{}
	for _, d := range t.Drivers.All() {
		if m, ok := d.MountKind(kind); ok {
			for _, s := range m.Settings {
				if !seen[s.Name] {
					seen[s.Name] = true
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// driverSchema is the long form of an environment, or of a mount; key names its driver or kind.
func driverSchema(key, name, doc, argDoc string, argNeeds bool, settings []env.Setting) object {
	props := object{key: object{"const": name, "description": doc}, "against": ref("target")}
	required := []string{key}
	if argDoc != "" {
		props["arg"] = object{"type": "string", "description": argDoc}
	}
	if argNeeds {
		required = append(required, "arg")
	}
	for _, s := range settings {
		p := ref("scalar")
		p["description"] = s.Doc
		if s.Default != "" {
			p["default"] = s.Default
		}
		props[s.Name] = p
	}
	return object{"type": "object", "required": required, "properties": props, "additionalProperties": false}
}

func workloadsSchema(t *Tables) object {
	forms := []object{}
	names := []string{}
	for i := range t.Kinds {
		k := &t.Kinds[i]
		names = append(names, k.Name)
		params, required := paramsSchema(k)
		long := object{
			"kind":  object{"const": k.Name, "description": k.Doc},
			"label": object{"type": "string", "minLength": 1, "maxLength": maxLabel},
			"targets": object{"anyOf": []object{ref("target"),
				{"type": "array", "minItems": 1, "items": ref("target")}}},
			"baseline": ref("target"),
			"trial":    ref("duration"),
			"vary": object{"type": "object", "propertyNames": ref("target"),
				"additionalProperties": object{"type": "object", "minProperties": 1}},
			"work":   object{"type": "object", "additionalProperties": object{"type": "integer", "minimum": 1}},
			"params": object{"type": "object", "properties": params, "additionalProperties": false},
		}
		short := object{}
		for name, s := range params {
			if !contains(reservedWork, name) {
				long[name] = s
			}
		}
		for name, s := range long {
			if name != "kind" {
				short[name] = s
			}
		}
		shape := object{"type": "object", "properties": short, "additionalProperties": false}
		body := []object{shape}
		if len(required) == 0 {
			body = append(body, object{"type": "null"})
		}
		forms = append(forms,
			object{"type": "object", "required": []string{"kind"}, "properties": long, "additionalProperties": false},
			object{"type": "object", "required": []string{k.Name}, "properties": object{k.Name: object{"anyOf": body}},
				"additionalProperties": false})
	}
	forms = append(forms, object{"enum": names}, object{"type": "string", "pattern": "^[a-z][a-z0-9.]*:"})
	return object{"type": "array", "minItems": 1, "maxItems": maxWorkloads, "items": object{"anyOf": forms}}
}

func paramsSchema(k *workload.Kind) (props object, required []string) {
	props = object{}
	for _, d := range k.Params {
		var s object
		switch d.Type {
		case workload.Int:
			s = ref("int")
		case workload.Size:
			s = ref("size")
		case workload.Bool:
			s = ref("bool")
		case workload.Duration:
			s = ref("duration")
		case workload.Choice:
			s = object{"enum": d.Choices}
		default:
			s = ref("scalar")
		}
		s["description"] = d.Doc
		if d.Default != "" {
			s["default"] = d.Default
		}
		if d.Required {
			required = append(required, d.Name)
		}
		props[d.Name] = s
	}
	return props, required
}
