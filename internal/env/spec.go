package env

import (
	"fmt"
	"net/url"
	"regexp"
	"sort"
	"strings"

	"tare/internal/unit"
)

// Spec says which environment is meant: NAME=DRIVER[:ARG][?key=value&...].
type Spec struct {
	Name     string
	Driver   string
	Arg      string
	Settings map[string]string // only what was given; drivers know the defaults
}

// Get returns a setting's value, or the fallback when it was not given.
func (s *Spec) Get(name, fallback string) string {
	if v, ok := s.Settings[name]; ok {
		return v
	}
	return fallback
}

// String returns the spec's canonical text, which parses to the same spec: settings sorted by name.
func (s Spec) String() string {
	var b strings.Builder
	b.WriteString(s.Driver)
	if s.Arg != "" {
		b.WriteString(":" + strings.NewReplacer("%", "%25", "?", "%3F").Replace(s.Arg))
	}
	keys := make([]string, 0, len(s.Settings))
	for k := range s.Settings {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for i, k := range keys {
		b.WriteString(map[bool]string{true: "?", false: "&"}[i == 0])
		b.WriteString(url.QueryEscape(k) + "=" + url.QueryEscape(s.Settings[k]))
	}
	return b.String()
}

var nameRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$`)

// CheckName says what is wrong with an environment's name.
func CheckName(name string) error {
	if !nameRE.MatchString(name) {
		return fmt.Errorf("%q is not a name: 1 to 40 letters, digits, dots, dashes or underscores, beginning with a letter or digit", name)
	}
	return nil
}

// ParseSpec reads NAME=DRIVER[:ARG][?key=value&...]. A bare NAME is a driver with default settings, and the name "host"
// alone means the local machine. It does not know the drivers; Registry.Check does.
func ParseSpec(text string) (Spec, error) {
	s := Spec{}
	name, rest, named := strings.Cut(text, "=")
	if !named || strings.ContainsAny(name, ":?") {
		name, rest = "", text
	}
	body, query, _ := strings.Cut(rest, "?")
	s.Driver, s.Arg, _ = strings.Cut(body, ":")
	var err error
	if s.Arg, err = url.PathUnescape(s.Arg); err != nil {
		return s, fmt.Errorf("environment %q: %v", text, err)
	}
	if query != "" {
		s.Settings = map[string]string{}
		for _, kv := range strings.Split(query, "&") {
			k, v, ok := strings.Cut(kv, "=")
			k, err1 := url.QueryUnescape(k)
			v, err2 := url.QueryUnescape(v)
			if !ok || k == "" || err1 != nil || err2 != nil {
				return s, fmt.Errorf("environment %q: %q is not key=value", text, kv)
			}
			if _, twice := s.Settings[k]; twice {
				return s, fmt.Errorf("environment %q: %s is given twice", text, k)
			}
			s.Settings[k] = v
		}
	}
	if name == "" {
		name = s.Driver
		if s.Driver == "host" {
			s.Driver = "local"
		}
	}
	s.Name = name
	if s.Driver == "" {
		return s, fmt.Errorf("environment %q names no driver; write NAME=DRIVER[:ARG][?key=value&...]", text)
	}
	return s, CheckName(name)
}

// Registry is the table of drivers.
type Registry struct{ infos []Info }

// NewRegistry makes a table of drivers and panics on a duplicate name, which is a mistake in the program.
func NewRegistry(infos ...Info) *Registry {
	seen := map[string]bool{}
	for _, i := range infos {
		if seen[i.Name] || i.Name == "" || i.Driver == nil {
			panic("env: driver " + i.Name + " is registered twice or incomplete")
		}
		seen[i.Name] = true
	}
	return &Registry{infos}
}

// All returns the drivers in the order they were listed.
func (r *Registry) All() []Info { return r.infos }

// Names returns the drivers' names in the order they were listed.
func (r *Registry) Names() []string {
	names := make([]string, len(r.infos))
	for i := range r.infos {
		names[i] = r.infos[i].Name
	}
	return names
}

// Lookup returns the driver of that name.
func (r *Registry) Lookup(name string) (Info, bool) {
	for _, i := range r.infos {
		if i.Name == name {
			return i, true
		}
	}
	return Info{}, false
}

// Check says what is wrong with a spec: unknown driver or setting (with the nearest valid name), bad value, missing or
// superfluous argument.
func (r *Registry) Check(s Spec) error {
	d, ok := r.Lookup(s.Driver)
	if !ok {
		return fmt.Errorf("environment %s: no driver is called %q%s", s.Name, s.Driver, unit.DidYouMean(s.Driver, r.Names()))
	}
	if d.ArgNeeds && s.Arg == "" {
		return fmt.Errorf("environment %s: driver %s needs an argument: %s:%s", s.Name, d.Name, d.Name, d.ArgDoc)
	}
	if d.ArgDoc == "" && s.Arg != "" {
		return fmt.Errorf("environment %s: driver %s takes no argument, got %q", s.Name, d.Name, s.Arg)
	}
	names := make([]string, len(d.Settings))
	for i := range d.Settings {
		names[i] = d.Settings[i].Name
	}
	keys := make([]string, 0, len(s.Settings))
	for k := range s.Settings {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		i := indexOf(names, k)
		if i < 0 {
			return fmt.Errorf("environment %s: driver %s has no setting %q%s", s.Name, d.Name, k, unit.DidYouMean(k, names))
		}
		if c := d.Settings[i].Check; c != nil {
			if err := c(s.Settings[k]); err != nil {
				return fmt.Errorf("environment %s: setting %s: %w", s.Name, k, err)
			}
		}
	}
	return nil
}

func indexOf(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}
