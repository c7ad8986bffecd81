package benchfmt

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
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
