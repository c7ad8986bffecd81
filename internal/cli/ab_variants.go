package cli

import (
	"fmt"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"tare/internal/lab/env"
)

// maxVariants bounds the variants of a comparison: more make blocks too long to be in turn.
const maxVariants = 24

// variant is one side of a comparison: a target of the plan.
type variant struct {
	spec   env.Spec // its name and where it runs
	params map[string]string
	about  string // what it is, for people
}

// choice is a value of something that differs.
type choice struct {
	name  string // becomes part of the variant's name
	apply func(v *variant)
}

// variants lists what is compared: every combination of commands, values, variables, images and revisions, the first
// of each in the first one.
func (a *abFlags) variants(lines, revisions []string, place env.Spec) ([]variant, error) {
	first, err := a.common(place)
	if err != nil {
		return nil, err
	}
	for hook, list := range a.hooks() {
		if len(list) > 1 && len(list) != len(lines) {
			return nil, usagef("--%s is given %d times, for %d commands", hook, len(list), len(lines))
		}
	}
	dimensions := [][]choice{a.commands(lines)}
	for _, text := range append(slices.Clone(a.lists), a.scans...) {
		c, err := a.parameter(text, slices.Contains(a.lists, text), lines)
		if err != nil {
			return nil, err
		}
		dimensions = append(dimensions, c)
	}
	for _, text := range a.vars {
		name, list, err := nameAndValues("--env-var", text)
		if err != nil {
			return nil, err
		}
		var c []choice
		for _, v := range list {
			c = append(c, choice{name + "-" + v, func(x *variant) {
				x.params["env"] = strings.TrimPrefix(x.params["env"]+"\n"+name+"="+v, "\n")
				x.about = name + "=" + quoteArg(v) + " " + x.about
			}})
		}
		dimensions = append(dimensions, c)
	}
	var images, commits []choice
	for _, image := range a.images {
		images = append(images, choice{image, func(x *variant) {
			x.spec.Arg, x.about = image, image+": "+x.about
		}})
	}
	for i, r := range revisions {
		name := r
		if len(a.revisions) == len(revisions) {
			name = a.revisions[i]
		}
		commits = append(commits, choice{name, func(x *variant) { x.about = r + ": " + x.about }})
	}
	all := []variant{first}
	names := []string{""}
	for _, d := range append(dimensions, images, commits) {
		if len(d) == 0 {
			continue
		}
		var next []variant
		var called []string
		for i := range all {
			for _, c := range d {
				v := all[i]
				v.params = maps.Clone(v.params)
				c.apply(&v)
				next = append(next, v)
				name := names[i]
				if len(d) > 1 {
					name = strings.TrimPrefix(name+"."+c.name, ".")
				}
				called = append(called, name)
			}
			if len(next) > maxVariants {
				return nil, usagef("these are more than %d variants; compare fewer at a time", maxVariants)
			}
		}
		all, names = next, called
	}
	if len(all) < 2 {
		return nil, usagef("one command has nothing that it could be compared with: give another one, or values by " +
			"-L, --env-var, --image or --git; given twice, it is compared with itself")
	}
	if len(a.names) == len(all) {
		names = a.names
	} else if len(a.names) > 0 && len(a.names) != len(lines) {
		return nil, usagef("-n is given %d times, for %d variants", len(a.names), len(all))
	}
	for i, name := range unique(names) {
		all[i].spec.Name = name
	}
	return all, nil
}

// common returns the settings that all variants share.
func (a *abFlags) common(place env.Spec) (variant, error) {
	shell := a.shell
	if a.noShell {
		shell = "none"
	}
	p := map[string]string{"shell": shell, "timeout": a.timeout.String()}
	if a.ignore {
		p["exit"] = "-1"
	}
	if a.check {
		p["check"] = "output"
	}
	var err error
	if p["dir"] = a.dir; onHost(place) && !a.git {
		if p["dir"], err = filepath.Abs(a.dir); err != nil {
			return variant{}, err
		}
	}
	if p["input"] = a.input; onHost(place) && a.input != "" {
		if p["input"], err = filepath.Abs(a.input); err != nil {
			return variant{}, err
		}
	}
	return variant{spec: place, params: p}, nil
}

// hooks are the commands around a run.
func (a *abFlags) hooks() map[string][]string {
	return map[string][]string{"setup": a.setup, "prepare": a.prepare, "conclude": a.conclude, "cleanup": a.cleanup}
}

// commands are the choices of the command. A command around it is given once for all, or once for each.
func (a *abFlags) commands(lines []string) []choice {
	short := briefly(lines)
	if len(a.names) == len(lines) {
		short = a.names
	}
	var out []choice
	for i, line := range lines {
		out = append(out, choice{short[i], func(v *variant) {
			v.params["command"], v.about = line, line
			for name, list := range a.hooks() {
				switch {
				case len(list) == len(lines):
					v.params[name] = list[i]
				case len(list) > 0:
					v.params[name] = list[0]
				}
			}
		}})
	}
	return out
}

// parameter reads the values that take the place of {NAME} in the commands.
func (a *abFlags) parameter(text string, isList bool, lines []string) ([]choice, error) {
	flag, values := "-P", scan
	if isList {
		flag, values = "-L", split
	}
	name, rest, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return nil, usagef("%s %s: write NAME=VALUES in one word: -L threads=1,2,4 or -P threads=1..8", flag, text)
	}
	for _, list := range a.hooks() {
		lines = append(slices.Clone(lines), list...)
	}
	mark := "{" + name + "}"
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, mark) }) {
		return nil, usagef("%s %s: no command has %s, where the values would stand", flag, text, mark)
	}
	list, err := values(rest)
	if err != nil {
		return nil, usagef("%s %s: %v", flag, text, err)
	}
	var out []choice
	for _, v := range list {
		out = append(out, choice{name + "-" + v, func(x *variant) {
			for _, p := range []string{"command", "setup", "prepare", "conclude", "cleanup"} {
				if x.params[p] != "" {
					x.params[p] = strings.ReplaceAll(x.params[p], mark, v)
				}
			}
			x.about = strings.ReplaceAll(x.about, mark, v)
		}})
	}
	return out, nil
}

func nameAndValues(flag, text string) (name string, values []string, err error) {
	name, rest, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return "", nil, usagef("%s %s: write NAME=VALUE,VALUE", flag, text)
	}
	if values, err = split(rest); err != nil {
		return "", nil, usagef("%s %s: %v", flag, text, err)
	}
	return name, values, nil
}

// split splits a list at commas. A comma in a value is written \, and a backslash \\.
func split(text string) ([]string, error) {
	out := []string{""}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && (text[i+1] == ',' || text[i+1] == '\\'):
			i++
			out[len(out)-1] += string(text[i])
		case c == ',':
			out = append(out, "")
		default:
			out[len(out)-1] += string(c)
		}
	}
	if len(out) > maxVariants {
		return nil, fmt.Errorf("%d values are more than %d", len(out), maxVariants)
	}
	for i, v := range out {
		if slices.Contains(out[:i], v) {
			return nil, fmt.Errorf("%q is given twice", v)
		}
	}
	return out, nil
}

// scan lists the numbers of MIN..MAX or MIN..MAX..STEP, both ends included.
func scan(text string) ([]string, error) {
	parts := strings.Split(text, "..")
	if len(parts) == 2 {
		parts = append(parts, "1")
	}
	var n [3]float64
	digits := 0
	for i := range n {
		if len(parts) != len(n) {
			return nil, fmt.Errorf("expected MIN..MAX or MIN..MAX..STEP, such as 1..8 or 0..1..0.25")
		}
		v, err := strconv.ParseFloat(parts[i], 64)
		if err != nil || math.IsNaN(v) || math.Abs(v) > 1e15 {
			return nil, fmt.Errorf("%q is not a number", parts[i])
		}
		if _, fraction, ok := strings.Cut(parts[i], "."); ok {
			digits = max(digits, min(len(fraction), 15))
		}
		n[i] = v
	}
	low, high, step := n[0], n[1], n[2]
	count := math.Floor((high-low)/step + 1e-9)
	switch {
	case !(step > 0) || high < low:
		return nil, fmt.Errorf("expected a MAX that is not below MIN, and a STEP above 0")
	case count >= maxVariants:
		return nil, fmt.Errorf("%.0f values are more than %d; give a larger STEP", count+1, maxVariants)
	}
	var out []string
	for i := range int(count) + 1 {
		out = append(out, strconv.FormatFloat(low+float64(i)*step, 'f', digits, 64))
	}
	return out, nil
}

// briefly names commands by their programs where these differ, else by the whole lines.
func briefly(lines []string) []string {
	var programs []string
	for _, l := range lines {
		word, _, _ := strings.Cut(strings.TrimSpace(l), " ")
		word = path.Base(filepath.ToSlash(word))
		if slices.Contains(programs, word) {
			return lines
		}
		programs = append(programs, word)
	}
	return programs
}

// maxName is the most characters of an environment's name.
const maxName = 40

// unique makes of texts names that environments can have, each another one.
func unique(texts []string) []string {
	var out []string
	for _, text := range texts {
		name := strings.Join(strings.FieldsFunc(text, func(r rune) bool {
			return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' && r != '_'
		}), "-")
		name = strings.TrimLeft(name, ".-_")
		if name == "" {
			name = "variant"
		}
		name = strings.TrimRight(name[:min(len(name), maxName)], ".-")
		base := name
		for n := 2; slices.Contains(out, name); n++ {
			suffix := "-" + strconv.Itoa(n)
			name = base[:min(len(base), maxName-len(suffix))] + suffix
		}
		out = append(out, name)
	}
	return out
}
