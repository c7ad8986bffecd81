package env

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"tare/internal/suggest"
)

// Host is what users call the driver of the controller's machine itself in a spec, and its environment; local is the
// name in the table. Every spec knows them, without the drivers.
const (
	Host  = "host"
	local = "local"
)

// DriverNamed is the name in the table of the driver that a user calls so.
func DriverNamed(word string) string {
	if word == Host {
		return local
	}
	return word
}

// HostSpec is the environment that is the controller's machine itself.
func HostSpec() Spec { return Spec{Name: Host, Driver: local} }

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

// With is the spec with other values of some settings.
func (s Spec) With(settings map[string]string) Spec {
	all := maps.Clone(s.Settings)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, settings)
	s.Settings = all
	return s
}

// String returns the canonical text of everything but the name, with the settings sorted by name:
// DRIVER[:ARG][?key=value&...]. NAME=TEXT parses to the same spec.
func (s Spec) String() string {
	var b strings.Builder
	b.WriteString(s.Driver)
	if s.Arg != "" {
		b.WriteString(":" + strings.NewReplacer("%", "%25", "?", "%3F").Replace(s.Arg))
	}
	for i, k := range slices.Sorted(maps.Keys(s.Settings)) {
		if i == 0 {
			b.WriteByte('?')
		} else {
			b.WriteByte('&')
		}
		b.WriteString(escape(k) + "=" + escape(s.Settings[k]))
	}
	return b.String()
}

// escape is url.QueryEscape, with spaces as %20, and without escapes for the characters of paths and lists. A plus sign
// stands for itself in a spec, as in cpu=max,+avx2.
func escape(s string) string {
	return strings.NewReplacer("+", "%20", "%2B", "+", "%2F", "/", "%2C", ",", "%3A", ":").Replace(url.QueryEscape(s))
}

var nameRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$`) })

// CheckName says what is wrong with an environment's name.
func CheckName(name string) error {
	if !nameRE().MatchString(name) {
		return fmt.Errorf("%q is not a name: 1 to 40 letters, digits, dots, dashes or underscores, beginning with a "+
			"letter or digit", name)
	}
	return nil
}

// CutMount splits the name of a mount's target: ENVIRONMENT:MOUNT. ok is false for the name of an environment.
func CutMount(target string) (environment, mount string, ok bool) {
	return strings.Cut(target, ":")
}

// ParseMount parses ENVIRONMENT:NAME[=KIND[:ARG][?key=value&...]]; without a kind, the name is the kind. The Spec's
// Name is NAME and its Driver the kind.
func ParseMount(text string) (environment string, s Spec, err error) {
	environment, rest, ok := strings.Cut(text, ":")
	if !ok {
		return "", s, fmt.Errorf("mount %q has no environment; write ENVIRONMENT:NAME=KIND[:ARG][?key=value&...]",
			text)
	}
	if err := CheckName(environment); err != nil {
		return "", s, fmt.Errorf("mount %q: %w", text, err)
	}
	if s, err = ParseSpec(rest); err != nil {
		return "", s, fmt.Errorf("mount %q: %w", text, err)
	}
	return environment, s, nil
}

// ParseSpec parses NAME=DRIVER[:ARG][?key=value&...]. A bare DRIVER... is its own name, and the driver "host" is the
// local machine. ARG and values may contain %XX escapes. ParseSpec does not know the drivers; Registry.Check does.
func ParseSpec(text string) (Spec, error) {
	s := Spec{}
	name, rest, named := strings.Cut(text, "=")
	if !named || strings.ContainsAny(name, ":?") {
		named, rest = false, text
	}
	body, query, _ := strings.Cut(rest, "?")
	var err error
	s.Driver, s.Arg, _ = strings.Cut(body, ":")
	if s.Arg, err = unescape(s.Arg); err != nil {
		return s, fmt.Errorf("environment %q: %w", text, err)
	}
	if query != "" {
		if s.Settings, err = parseSettings(query); err != nil {
			return s, fmt.Errorf("environment %q: %w", text, err)
		}
	}
	if s.Name = name; !named {
		s.Name = s.Driver
	}
	s.Driver = DriverNamed(s.Driver)
	if s.Driver == "" {
		return s, fmt.Errorf("environment %q has no driver; write NAME=DRIVER[:ARG][?key=value&...]", text)
	}
	if err := CheckName(s.Driver); err != nil {
		return s, fmt.Errorf("environment %q: driver %w", text, err)
	}
	if err := CheckName(s.Name); err != nil {
		return s, fmt.Errorf("environment %q: %w", text, err)
	}
	return s, nil
}

func parseSettings(query string) (map[string]string, error) {
	settings := map[string]string{}
	for kv := range strings.SplitSeq(query, "&") {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("%q is not key=value; write %%26 for & in a value", kv)
		}
		k, err := unescape(k)
		if err != nil {
			return nil, err
		}
		if _, twice := settings[k]; twice {
			return nil, fmt.Errorf("%s is given twice", k)
		}
		if settings[k], err = unescape(v); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
	}
	return settings, nil
}

// unescape decodes %XX. It rejects text that could not be passed as an argument or printed in a report.
func unescape(s string) (string, error) {
	u, err := url.PathUnescape(s)
	if err != nil {
		return "", fmt.Errorf("%q has a bad %%XX escape; write %%25 for a percent sign", s)
	}
	if !utf8.ValidString(u) {
		return "", fmt.Errorf("%q is not UTF-8", u)
	}
	if i := strings.IndexFunc(u, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
		return "", fmt.Errorf("%q contains a control character", u)
	}
	return u, nil
}

// Registry is the table of drivers.
type Registry struct{ infos []Info }

// NewRegistry makes a table of drivers. It panics on a duplicate name, which is a mistake in the program.
func NewRegistry(infos ...Info) *Registry {
	seen := map[string]bool{}
	for _, i := range infos {
		if seen[i.Name] || i.Name == "" || i.Driver == nil {
			panic("env: driver " + i.Name + " is registered twice or is incomplete")
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

// nearest suggests the driver that was probably meant, or lists all. host is the local machine in every spec.
func (r *Registry) nearest(driver string) string {
	names := append([]string{Host}, r.Names()...)
	if hint := suggest.DidYouMean(driver, names); hint != "" {
		return hint
	}
	return "; there are: " + strings.Join(names, ", ")
}

// Check says what is wrong with a spec: unknown driver or setting (with the nearest valid name), bad value, missing or
// superfluous argument.
func (r *Registry) Check(s Spec) error {
	d, ok := r.Lookup(s.Driver)
	if !ok {
		return fmt.Errorf("environment %s: there is no driver %q%s", s.Name, s.Driver, r.nearest(s.Driver))
	}
	if d.ArgNeeds && s.Arg == "" {
		return fmt.Errorf("environment %s: driver %s needs an argument: %s:%s", s.Name, d.Name, d.Name, d.ArgDoc)
	}
	if d.ArgDoc == "" && s.Arg != "" {
		return fmt.Errorf("environment %s: driver %s takes no argument, got %q", s.Name, d.Name, s.Arg)
	}
	return checkSettings("environment "+s.Name, "driver "+d.Name, d.Settings, s)
}

// CheckMount says what is wrong with a mount in an environment of that driver. Errors call the mount what.
func (r *Registry) CheckMount(what, driver string, s Spec) error {
	d, ok := r.Lookup(driver)
	if !ok {
		return fmt.Errorf("mount %s: there is no driver %q", what, driver)
	}
	var names []string
	for i := range d.Mounts {
		names = append(names, d.Mounts[i].Name)
	}
	i := slices.Index(names, s.Driver)
	switch {
	case len(names) == 0:
		return fmt.Errorf("mount %s: driver %s has no mounts; use dir= to choose the directory", what, driver)
	case i < 0:
		return fmt.Errorf("mount %s: driver %s has no mount %q%s", what, driver, s.Driver,
			suggest.MeantOrAll(s.Driver, names, "there are:"))
	}
	k := &d.Mounts[i]
	if k.ArgNeeds && s.Arg == "" {
		return fmt.Errorf("mount %s: %s needs an argument: %s:%s", what, k.Name, k.Name, k.ArgDoc)
	}
	if k.ArgDoc == "" && s.Arg != "" {
		return fmt.Errorf("mount %s: %s takes no argument, got %q", what, k.Name, s.Arg)
	}
	return checkSettings("mount "+what, "mount "+k.Name, k.Settings, s)
}

// CheckMountIn is CheckMount for a mount in a known environment. It also says which settings contradict each other.
func (r *Registry) CheckMountIn(what string, in, s Spec) error {
	if err := r.CheckMount(what, in.Driver, s); err != nil {
		return err
	}
	d, _ := r.Lookup(in.Driver)
	if k, _ := d.MountKind(s.Driver); k.CheckAll != nil {
		if err := k.CheckAll(in, s); err != nil {
			return fmt.Errorf("mount %s: %w", what, err)
		}
	}
	return nil
}

// MountKind returns a driver's kind of mount.
func (d *Info) MountKind(name string) (*MountKind, bool) {
	for i := range d.Mounts {
		if d.Mounts[i].Name == name {
			return &d.Mounts[i], true
		}
	}
	return nil, false
}

func checkSettings(what, owner string, settings []Setting, s Spec) error {
	names := make([]string, len(settings))
	for i := range settings {
		names[i] = settings[i].Name
	}
	for _, k := range slices.Sorted(maps.Keys(s.Settings)) {
		i := slices.Index(names, k)
		if i < 0 {
			return fmt.Errorf("%s: %s has no setting %q%s", what, owner, k, suggest.MeantOrAll(k, names, "there are:"))
		}
		if c := settings[i].Check; c != nil {
			if err := c(s.Settings[k]); err != nil {
				if suggest.RunsOn(s.Settings[k], ",;: ", names) {
					return fmt.Errorf("%s: setting %s: %w; separate settings with &", what, k, err)
				}
				return fmt.Errorf("%s: setting %s: %w", what, k, err)
			}
		}
	}
	return nil
}

// OneOf is a Setting.Check that accepts these values only.
func OneOf(values ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("%q is not one of %s%s", v, strings.Join(values, ", "), suggest.DidYouMean(v, values))
		}
		return nil
	}
}
