package benchfmt

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of an expression: its length in bytes, and its groups, which each match has room for.
const (
	maxPattern = 4096
	maxGroups  = 10
)

// pattern makes the parser of a regular expression. Each match is a figure: the group name has the case's name, value
// the number, unit its unit. Go's expressions take a time that grows with the text alone, whatever they are.
func pattern(re *regexp.Regexp) (Parser, error) {
	name, value, unitAt := re.SubexpIndex("name"), re.SubexpIndex("value"), re.SubexpIndex("unit")
	if n := re.NumSubexp(); len(re.String()) > maxPattern || n > maxGroups {
		return nil, fmt.Errorf("has %d bytes and %d groups, at most %d and %d are taken", len(re.String()), n,
			maxPattern, maxGroups)
	}
	if name < 0 || value < 0 {
		return nil, errors.New("needs the groups (?P<name>...) and (?P<value>...)")
	}
	// The unit may change from run to run where it is that of a time and the group stands behind the value's.
	finder := caseFinder{keepUnit: unitAt > value}
	var err error
	if finder.tree, err = syntax.Parse(re.String(), syntax.Perl); err != nil {
		return nil, err
	}
	return func(out []byte) (*Suite, error) {
		b := newBuilder()
		matches := re.FindAllSubmatchIndex(out, MaxValues+1)
		for i, m := range matches {
			group := func(n int) string {
				if n < 0 || m[2*n] < 0 {
					return ""
				}
				return string(out[m[2*n]:m[2*n+1]])
			}
			v, err := strconv.ParseFloat(group(value), 64)
			if err != nil && v == 0 {
				return nil, fmt.Errorf("match %d: the group value is %.60q, which is no number", i+1, group(value))
			}
			f := normal(v, group(unitAt))
			f.Name = "value"
			if _, known := b.at[group(name)]; !known && len(b.suite.Cases)*len(out) < mostSearched {
				f.find, f.printed = finder.find(out, group(name), group(unitAt), m[2*value])
			}
			if err := b.put(group(name), f); err != nil {
				return nil, fmt.Errorf("match %d: %w", i+1, err)
			}
		}
		if len(matches) == 0 {
			return nil, fmt.Errorf("the output has no match for the expression %s", re)
		}
		return b.done()
	}, nil
}

// caseFinder makes of the expression for all cases the expression for one of them.
type caseFinder struct {
	tree     *syntax.Regexp
	keepUnit bool // the group unit may be the second group
}

// find returns the expression of a case, whose first match has its value at a byte of the output, and the unit of what
// it finds; "" if there is none. It has the case's name in the place of the group name, and the value as its first
// group.
func (x *caseFinder) find(out []byte, name, unitName string, at int) (expression, printed string) {
	printed = strings.TrimSpace(unitName)
	keep := x.keepUnit && Second(unitName) > 0
	if keep {
		printed = "s"
	}
	if !utf8.ValidString(name) || !utf8.ValidString(unitName) {
		return "", printed
	}
	// A name that begins a word is no end of a longer name, as far as the expression for all of them allows it.
	for _, begins := range []bool{true, false} {
		e := x.of(x.tree, name, unitName, keep, begins).String()
		if e != strings.TrimSpace(e) { // the lines of the parameter are trimmed
			e = "(?:" + e + ")"
		}
		re, err := regexp.Compile(e)
		if err != nil || len(e) > maxPattern+4*(MaxName+len(unitName)) || strings.Contains(e, "\n") {
			continue
		}
		if m := re.FindSubmatchIndex(out); len(m) > 3 && m[2] == at {
			return e, printed
		}
	}
	return "", printed
}

// of copies a tree with one case's name and unit in it. Other groups become plain.
func (x *caseFinder) of(tree *syntax.Regexp, name, unitName string, keep, begins bool) *syntax.Regexp {
	if tree.Op == syntax.OpCapture {
		switch {
		case tree.Name == "name" && begins:
			return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{{Op: syntax.OpWordBoundary},
				literal(name)}}
		case tree.Name == "name":
			return literal(name)
		case tree.Name == "unit" && !keep:
			return literal(unitName)
		case tree.Name != "value" && tree.Name != "unit":
			return x.of(tree.Sub[0], name, unitName, keep, begins)
		}
	}
	c := *tree
	c.Sub = nil
	for _, s := range tree.Sub {
		c.Sub = append(c.Sub, x.of(s, name, unitName, keep, begins))
	}
	return &c
}

// literal is an expression for a text as it is.
func literal(text string) *syntax.Regexp {
	if text == "" {
		return &syntax.Regexp{Op: syntax.OpEmptyMatch}
	}
	return &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune(text)}
}
