package workload

import (
	"fmt"
	"strconv"
	"strings"
)

// FromParam is the parameter of a load that names the environments of the run which offer it together, in the place of
// the target.
const FromParam = "from"

// Bounds of that parameter.
const (
	MostHosts = 64
	mostShare = 1000
)

// FromParams is its declaration.
func FromParams() Param {
	return Param{Name: FromParam, Type: Text, Sparse: true, Doc: "environments of the run that together offer " +
		"the load to the target, where the server is, NAME+NAME; NAME*2 does twice as much"}
}

// Share is one of several environments that offer a load together.
type Share struct {
	Name   string
	Weight int64 // its part of the work, from 1
}

// ParseFrom reads a value of FromParam; nil for an empty one.
func ParseFrom(text string) (all []Share, err error) {
	if text == "" {
		return nil, nil
	}
	seen := map[string]bool{}
	for word := range strings.SplitSeq(text, "+") {
		name, weight, weighed := strings.Cut(strings.TrimSpace(word), "*")
		s := Share{Name: name, Weight: 1}
		if weighed {
			s.Weight, err = strconv.ParseInt(weight, 10, 64)
		}
		switch {
		case err != nil || s.Weight < 1 || s.Weight > mostShare || name == "":
			return nil, fmt.Errorf("%q must be NAME, or NAME*SHARE with a whole number from 1 to %d; names are "+
				"separated by +", word, mostShare)
		case seen[name]:
			return nil, fmt.Errorf("%s is named twice; give it a share: %s*2", name, name)
		}
		seen[name] = true
		all = append(all, s)
	}
	if len(all) > MostHosts {
		return nil, fmt.Errorf("%d environments are named, but at most %d are possible", len(all), MostHosts)
	}
	return all, nil
}
