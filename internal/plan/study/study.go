// Package study holds the plans that come with tare: published comparisons of environments, each repeated by one
// command.
//
// A study is a plan file like any other. It names every environment and mount that the comparison is about and leaves
// out what a machine does not have (missing: skip), so that it runs everywhere and says what it could not look at.
package study

import (
	"embed"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Study is a plan that comes with tare.
type Study struct {
	Name     string // as in `tare run --study`
	Question string // the headline question
	Plan     []byte // the plan file
}

// All lists the studies in the order of their names.
func All() []Study {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("study: " + err.Error()) // the files are part of the program
	}
	var all []Study
	for _, e := range entries {
		src, err := files.ReadFile(e.Name())
		if err != nil {
			panic("study: " + err.Error())
		}
		s := Study{Name: strings.TrimSuffix(e.Name(), ".yaml"), Plan: src}
		for line := range strings.Lines(string(src)) {
			if q, ok := strings.CutPrefix(line, "question: "); ok {
				s.Question = strings.TrimSpace(q)
			}
		}
		all = append(all, s)
	}
	return all
}

// Lookup returns the study of that name.
func Lookup(name string) (Study, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return Study{}, false
}

// Names lists the studies' names.
func Names() []string {
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
	}
	return names
}
