package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	ImportPath  string
	FailedBuild string
}

// attempt is one run of a test or of a package.
type attempt struct {
	end  string // the Action it ended with; empty while it has not
	said []string
}

func (a *attempt) failed() bool { return a.end != "pass" && a.end != "skip" }

// pack is a package. Its attempts are those of all its tests, or of those that are repeated.
type pack struct {
	attempts []*attempt
	blamed   []bool // for each attempt of the package: one of its tests failed
	tests    map[string][]*attempt
}

// now is the attempt of the package that has not ended.
func (p *pack) now() *attempt {
	if n := len(p.attempts); n > 0 && p.attempts[n-1].end == "" {
		return p.attempts[n-1]
	}
	p.attempts, p.blamed = append(p.attempts, &attempt{}), append(p.blamed, false)
	return p.attempts[len(p.attempts)-1]
}

// test is the attempt of a test that has not ended.
func (p *pack) test(name string) *attempt {
	list := p.tests[name]
	if n := len(list); n > 0 && list[n-1].end == "" {
		return list[n-1]
	}
	a := &attempt{}
	p.tests[name] = append(list, a)
	return a
}

// lost is the end of a test that its package's end found under way: the program ended in the middle of it.
const lost = "lost"

type reader struct {
	packages map[string]*pack
	builds   map[string][]string // what the compiler said
}

func (r *reader) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := r.read(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(r.packages) == 0 {
		return fmt.Errorf("%s tells of no package", path)
	}
	return nil
}

func (r *reader) read(in io.Reader) error {
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil && e.Action != "" {
			r.take(&e)
		} else if len(strings.TrimSpace(string(line))) > 0 {
			return fmt.Errorf("no event of go test: %.100q", line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (r *reader) take(e *event) {
	switch e.Action {
	case "build-output":
		if r.builds == nil {
			r.builds = map[string][]string{}
		}
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
		return
	case "build-fail":
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &pack{tests: map[string][]*attempt{}}
		r.packages[e.Package] = p
	}
	a := p.now()
	if e.Test != "" {
		a = p.test(e.Test)
	}
	switch e.Action {
	case "output":
		if !progress(e.Output) {
			a.said = append(a.said, e.Output)
		}
	case "pass", "fail", "skip":
		a.end = e.Action
		if e.Test != "" {
			p.blamed[len(p.blamed)-1] = p.blamed[len(p.blamed)-1] || e.Action == "fail"
			return
		}
		a.said = append(slices.Clone(r.builds[e.FailedBuild]), a.said...)
		for _, list := range p.tests {
			if last := list[len(list)-1]; last.end == "" {
				last.end = lost
				p.blamed[len(p.blamed)-1] = true
			}
		}
	}
}

// progress tells the lines by which a test that is looked at tells where it is.
func progress(line string) bool {
	for _, word := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "} {
		if strings.HasPrefix(line, word) {
			return true
		}
	}
	return false
}

// judge counts the tests, with their last attempt, and the packages that failed besides.
func (r *reader) judge(s *summary) {
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[name]
		for _, test := range slices.Sorted(maps.Keys(p.tests)) {
			judgeTest(s, name, test, p)
		}
		for i, a := range p.attempts {
			// What a package fails for besides its tests, such as what they left, is in no test that can be repeated,
			// and a repetition of one test shows nothing of it.
			if a.end == "" {
				s.fail(name+": go test said no end of it", a.said)
			} else if a.failed() && !p.blamed[i] {
				s.fail(name, a.said)
				break
			}
		}
	}
}

func judgeTest(s *summary, name, test string, p *pack) {
	list := p.tests[test]
	last := list[len(list)-1]
	whole := name + " " + test
	first := slices.IndexFunc(list, func(a *attempt) bool { return a.failed() })
	switch {
	case first < 0 && last.end == "skip":
		s.skip(name, test, reasonOf(last.said))
	case first < 0:
		s.passed++
		s.ran[name+"."+test] = true
	case last.end == "pass":
		s.passed++
		s.ran[name+"."+test] = true
		// The test around it failed for it alone.
		if !within(p, test) {
			s.flaky = append(s.flaky, flake{whole, reasonOf(list[first].said), list[first].said})
		}
	case last.end == "fail":
		s.fail(whole, last.said)
	case last.end == "skip":
		s.fail(whole+" failed, and was skipped when it was repeated", list[first].said)
	default:
		s.fail(whole+" did not end", last.said)
	}
}

// within tells whether a test in a test failed, too.
func within(p *pack, test string) bool {
	for name, list := range p.tests {
		if strings.HasPrefix(name, test+"/") && slices.ContainsFunc(list, func(a *attempt) bool { return a.failed() }) {
			return true
		}
	}
	return false
}

// place is where a test's line comes from.
var place = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: `)

// reasonOf is the last thing that a test said, in one line.
func reasonOf(said []string) string {
	var reason []string
	for _, line := range said {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "--- "), trimmed == "":
		case place.MatchString(line):
			reason = []string{strings.TrimSpace(place.ReplaceAllString(line, ""))}
		default:
			reason = append(reason, trimmed)
		}
	}
	if len(reason) == 0 {
		return "no reason given"
	}
	return strings.Join(reason, " ")
}
