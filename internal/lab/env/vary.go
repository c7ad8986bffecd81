package env

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What a setting moves (Setting.Moves), besides work of all kinds.
const (
	MovesFiles   = "files"
	MovesNetwork = "network"
)

// Variant is a spec that differs from another one in one setting.
type Variant struct {
	Spec
	Setting, Value string
}

// Vary derives from a spec those that differ from it in one setting each, by the values that are worth trying and move
// such work (MovesFiles, MovesNetwork). A setting that the spec leaves out has its default. The specs get the names
// that their settings make.
func Vary(s Spec, settings []Setting, moved ...string) (all []Variant) {
	for _, d := range settings {
		if d.Moves != "" && !slices.Contains(moved, d.Moves) {
			continue
		}
		for _, value := range d.Try {
			if value == d.In(s) {
				continue
			}
			v := Variant{s.With(map[string]string{d.Name: value}), d.Name, value}
			v.Name = variantName(s.Name, d.Name, value)
			all = append(all, v)
		}
	}
	return all
}

// In is the value that a setting has in a spec: the one that is written there, or else the default; "" without either.
func (d *Setting) In(s Spec) string {
	if given, ok := s.Settings[d.Name]; ok {
		return given
	}
	value, _, _ := strings.Cut(d.Default, " ") // "q35 (x86_64), virt (arm64)"
	return value
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// variantName is a name such as vm-cache-none.
func variantName(name, setting, value string) string {
	n := notInNames.ReplaceAllString(fmt.Sprintf("%s-%s-%s", name, setting, value), "-")
	return strings.TrimRight(n[:min(len(n), 40)], "-.")
}
