// Package stack makes real sites from a distribution's packages: a root directory with a web server, PHP, a database
// and a site with content, which environments then use as their root.
//
// It is opinionated. A site is installed once, in namespaces of its own without a network, and never in the host. It is
// kept by what it was made of: the recipe's files, its settings, the suite and the architecture. It counts as installed
// only after a copy of it was started and its pages contained what they should. An environment gets a copy, so that all
// serve the same bytes.
package stack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/lab/rootfs"
	"tare/internal/suggest"
	"tare/stacks"
)

// format is increased when stacks are kept in another way, so that older ones are made again.
const format = 1

// Recipe says how a site is made.
type Recipe struct {
	Name     string    `json:"name"`
	Version  int       `json:"version"`
	Doc      string    `json:"doc"` // one sentence
	Suite    string    `json:"suite"`
	Packages []string  `json:"packages"`
	Settings []Setting `json:"settings"`
}

// Setting is a number that decides the site's content.
type Setting struct {
	Name    string `json:"name"`
	Default int    `json:"default"`
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Doc     string `json:"doc"`
}

// runSettings are the settings of a run: they change how the site is served, not what is installed.
var runSettings = map[string][]string{"opcache": {"on", "off"}}

// Recipes returns the recipes that come with tare, sorted by name.
func Recipes() []Recipe {
	dirs, err := fs.ReadDir(stacks.Files, ".")
	if err != nil {
		panic("stack: " + err.Error()) // it is part of the program
	}
	var all []Recipe
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		text, err := fs.ReadFile(stacks.Files, path.Join(d.Name(), "recipe.json"))
		if err != nil {
			panic("stack: " + err.Error())
		}
		r, err := parseRecipe(text)
		if err != nil || r.Name != d.Name() {
			panic(fmt.Sprintf("stack: recipe %s: %v", d.Name(), err))
		}
		all = append(all, r)
	}
	return all
}

func parseRecipe(text []byte) (r Recipe, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(&r)
	return r, err
}

// Spec is a wish for a stack: NAME[,SETTING=VALUE...].
type Spec struct {
	Recipe Recipe
	// Settings are the settings of the content, all of them.
	Settings map[string]int
	// Run are the settings of the run that were given.
	Run map[string]string
}

// Parse parses NAME[,SETTING=VALUE...], such as mediawiki,pages=500,opcache=off.
func Parse(text string) (Spec, error) {
	name, rest, more := strings.Cut(text, ",")
	all := Recipes()
	i := slices.IndexFunc(all, func(r Recipe) bool { return r.Name == name })
	if i < 0 {
		var names []string
		for _, r := range all {
			names = append(names, r.Name)
		}
		return Spec{}, fmt.Errorf("there is no stack %q%s", name, suggest.MeantOrAll(name, names, "there are:"))
	}
	s := Spec{Recipe: all[i], Settings: map[string]int{}, Run: map[string]string{}}
	for _, d := range s.Recipe.Settings {
		s.Settings[d.Name] = d.Default
	}
	if !more {
		return s, nil
	}
	for _, pair := range strings.Split(rest, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return s, fmt.Errorf("stack %s: %q is not SETTING=VALUE", name, pair)
		}
		if err := s.set(key, value); err != nil {
			return s, fmt.Errorf("stack %s: %w", name, err)
		}
	}
	return s, nil
}

// set sets one setting.
func (s *Spec) set(key, value string) error {
	if values, ok := runSettings[key]; ok {
		if !slices.Contains(values, value) {
			return fmt.Errorf("%s=%s: expected %s", key, value, strings.Join(values, " or "))
		}
		s.Run[key] = value
		return nil
	}
	names := slices.Sorted(maps.Keys(runSettings))
	for _, d := range s.Recipe.Settings {
		if d.Name != key {
			names = append(names, d.Name)
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < d.Min || n > d.Max {
			return fmt.Errorf("%s=%s: expected a whole number from %d to %d", key, value, d.Min, d.Max)
		}
		s.Settings[key] = n
		return nil
	}
	return fmt.Errorf("there is no setting %q%s", key, suggest.MeantOrAll(key, names, "there are:"))
}

// String returns the spec's text, without settings that have their default.
func (s Spec) String() string {
	parts := []string{s.installed()}
	for _, k := range slices.Sorted(maps.Keys(s.Run)) {
		parts = append(parts, k+"="+s.Run[k])
	}
	return strings.Join(parts, ",")
}

// installed is the text of what has to be installed.
func (s Spec) installed() string {
	parts := []string{s.Recipe.Name}
	for _, d := range s.Recipe.Settings {
		if s.Settings[d.Name] != d.Default {
			parts = append(parts, fmt.Sprintf("%s=%d", d.Name, s.Settings[d.Name]))
		}
	}
	return strings.Join(parts, ",")
}

// RunVariable is the variable that tells an agent's stack how it is to be served: NAME=VALUE.
func (s Spec) RunVariable() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(s.Run)) {
		parts = append(parts, k+"="+s.Run[k])
	}
	return "TARE_STACK=" + strings.Join(parts, ",")
}

// files are the recipe's files and the program of every stack, by their names in the root.
func (s Spec) files() map[string][]byte {
	all := map[string][]byte{}
	take := func(from, to string) {
		text, err := fs.ReadFile(stacks.Files, from)
		if err != nil {
			panic("stack: " + err.Error())
		}
		all[to] = text
	}
	take("stack.sh", "stack.sh")
	take("text.php", "recipe/text.php")
	dir := s.Recipe.Name
	entries, err := fs.ReadDir(stacks.Files, dir)
	if err != nil {
		panic("stack: " + err.Error())
	}
	for _, e := range entries {
		switch e.Name() {
		case "recipe.json":
		case "site.sh":
			take(path.Join(dir, e.Name()), e.Name())
		default:
			take(path.Join(dir, e.Name()), "recipe/"+e.Name())
		}
	}
	var settings strings.Builder
	for _, d := range s.Recipe.Settings {
		fmt.Fprintf(&settings, "%s=%d\n", strings.ToUpper(d.Name), s.Settings[d.Name])
	}
	all["settings"] = []byte(settings.String())
	return all
}

// packages are what the root must have.
func (s Spec) packages() rootfs.Options {
	return rootfs.Options{Suite: s.Recipe.Suite, Packages: s.Recipe.Packages}
}

// base is the key of the packages that the site is made of.
func (s Spec) base() string {
	list := slices.Sorted(slices.Values(s.Recipe.Packages))
	return hash(fmt.Sprintf("tare stack base %d\n%s\n%s\n%s", format, s.Recipe.Suite, runtime.GOARCH,
		strings.Join(list, "\n")))
}

// Key identifies what the site is made of.
func (s Spec) Key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tare stack %d\n%s\n%d\n", format, s.base(), s.Recipe.Version)
	files := s.files()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "%s %x\n", name, sha256.Sum256(files[name]))
	}
	return hash(b.String())
}

func hash(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:16])
}

// SettingName is the name of the setting by which an environment gets a stack.
const SettingName = "stack"

// EnvSetting declares the setting of a driver whose environments can have a stack.
func EnvSetting() env.Setting {
	return env.Setting{Name: SettingName, Default: "", Doc: "A site of tare stack build, NAME[,SETTING=VALUE...], " +
		"whose system becomes the root: mediawiki,opcache=off.", Check: CheckSetting}
}

// CheckSetting says what is wrong with the setting's value.
func CheckSetting(v string) error {
	if v == "" {
		return nil
	}
	_, err := Parse(v)
	return err
}

// Has tells whether the stack that an environment's settings name is installed.
func Has(_ context.Context, s env.Spec) env.Status {
	if _, _, _, err := Of(&s, ""); errors.Is(err, ErrNotInstalled) {
		return env.Status{Detail: err.Error()}
	}
	return env.Status{OK: true} // the error of opening says more than another one here
}

// Of returns the stack that an environment's settings name; ok is false if they name none. other is the text of a
// setting that says what the root is; the two contradict each other.
func Of(s *env.Spec, other string) (st Stack, spec Spec, ok bool, err error) {
	text := s.Get(SettingName, "")
	if text == "" {
		return st, spec, false, nil
	}
	if other != "" {
		return st, spec, false, errors.New("stack= and " + other + " both say what the root is; leave one of them out")
	}
	if spec, err = Parse(text); err == nil {
		st, err = Lookup(spec, "")
	}
	return st, spec, err == nil, err
}
