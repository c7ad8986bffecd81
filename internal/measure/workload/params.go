package workload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/suggest"
	"tare/internal/unit"
)

// ParamType is the type by which a parameter's text is read.
type ParamType string

// The parameter types.
const (
	Int      ParamType = "int"
	Size     ParamType = "size"     // bytes, with binary units: 4KiB
	Bool     ParamType = "bool"     // yes/no, true/false, on/off
	Text     ParamType = "text"     // any string
	Choice   ParamType = "choice"   // one of Param.Choices
	Duration ParamType = "duration" // Go syntax: 300ms
)

// Param declares one parameter of a kind.
type Param struct {
	Name     string
	Type     ParamType
	Default  string
	Doc      string
	Choices  []string // for Choice
	Min, Max int64    // for Int and Size; both 0 means unbounded
	Required bool
	// Sparse parameters are not among the resolved ones unless they have a value: work that does without them is the
	// same as that of a bundle from before there were such parameters.
	Sparse bool
}

// Params are the resolved parameters of one workload: every declared parameter has a value, in canonical text.
type Params map[string]string

// Resolve checks given against the kind's declaration, fills in defaults and returns canonical text for each. The error
// names the parameter, what was expected and, for an unknown name, the nearest valid one.
func (k *Kind) Resolve(given map[string]string) (Params, error) {
	p := Params{}
	names := make([]string, 0, len(k.Params))
	byName := map[string]*Param{}
	for i := range k.Params {
		d := &k.Params[i]
		names = append(names, d.Name)
		byName[d.Name] = d
		p[d.Name] = d.Default
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		d, ok := byName[key]
		if !ok {
			return nil, &ParamError{Kind: k.Name, Param: key, Unknown: true,
				Message: fmt.Sprintf("%s has no parameter %q%s", k.Name, key,
					suggest.MeantOrAll(key, names, "there are:"))}
		}
		v, err := d.Canonical(given[key])
		if err != nil {
			if suggest.RunsOn(given[key], "&;: ", names) {
				err = fmt.Errorf("%w; separate parameters with a comma", err)
			}
			return nil, &ParamError{Kind: k.Name, Param: key, Message: fmt.Sprintf("%s: %s: %v", k.Name, key, err)}
		}
		p[key] = v
	}
	for _, d := range k.Params {
		if d.Required && p[d.Name] == "" {
			return nil, &ParamError{Kind: k.Name, Param: d.Name,
				Message: fmt.Sprintf("%s: %s is required: %s; write %s:%s=...", k.Name, d.Name, d.Doc, k.Name, d.Name)}
		}
		if p[d.Name] != "" {
			v, err := d.Canonical(p[d.Name])
			if err != nil {
				return nil, &ParamError{Kind: k.Name, Param: d.Name,
					Message: fmt.Sprintf("%s: %s: %v", k.Name, d.Name, err)}
			}
			p[d.Name] = v
		}
		if d.Sparse && p[d.Name] == "" {
			delete(p, d.Name)
		}
	}
	return p, nil
}

// ParamError is a parameter that a kind does not accept; the plan reader turns it into file, line and column.
type ParamError struct {
	Kind, Param, Message string
	Unknown              bool // the name, not the value, is wrong
}

func (e *ParamError) Error() string { return e.Message }

// Canonical checks one value and returns its canonical text.
func (d *Param) Canonical(v string) (string, error) {
	switch d.Type {
	case Int:
		n, err := strconv.ParseInt(strings.ReplaceAll(v, "_", ""), 10, 64)
		if err != nil {
			return "", fmt.Errorf("%q is not a whole number", v)
		}
		return strconv.FormatInt(n, 10), d.inRange(n, strconv.FormatInt(d.Min, 10), strconv.FormatInt(d.Max, 10))
	case Size:
		n, err := unit.ParseSize(v)
		if err != nil {
			return "", err
		}
		return unit.FormatSize(n), d.inRange(n, unit.FormatSize(d.Min), unit.FormatSize(d.Max))
	case Bool:
		switch strings.ToLower(v) {
		case "yes", "true", "on", "1":
			return "true", nil
		case "no", "false", "off", "0":
			return "false", nil
		}
		return "", fmt.Errorf("%q must be yes or no", v)
	case Choice:
		if slices.Contains(d.Choices, v) {
			return v, nil
		}
		return "", fmt.Errorf("%q is not one of %s%s", v, strings.Join(d.Choices, ", "),
			suggest.DidYouMean(v, d.Choices))
	case Duration:
		t, err := time.ParseDuration(v)
		if err != nil {
			return "", fmt.Errorf("%q is not a duration such as 300ms or 2s", v)
		}
		return t.String(), nil
	default:
		return v, nil
	}
}

func (d *Param) inRange(n int64, low, high string) error {
	if (d.Min != 0 || d.Max != 0) && (n < d.Min || (d.Max != 0 && n > d.Max)) {
		if d.Max == 0 {
			return fmt.Errorf("must be at least %s", low)
		}
		return fmt.Errorf("must be between %s and %s", low, high)
	}
	return nil
}

// Int returns a parameter of type Int or Size as a number. The parameter must have been resolved.
func (p Params) Int(name string) int64 {
	v := p[name]
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		return n
	}
	n, err := unit.ParseSize(v)
	if err != nil {
		panic(fmt.Sprintf("parameter %s=%q was not resolved", name, v))
	}
	return n
}

// Bool returns a parameter of type Bool.
func (p Params) Bool(name string) bool { return p[name] == "true" }

// Duration returns a parameter of type Duration; 0 when it is empty.
func (p Params) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(p[name])
	return d
}
