// Command tested shows what `go test -json` says as go test would, and ends with the tests that were skipped and why, which
// go test tells with -v only:
//
//	go test -json ./... | go run ./scripts/tested
//
// With -skips FILE the skipped tests are appended to a file instead, one a line, for a script that runs go test more than
// once. With -allowed FILE only those may be skipped that a line of the file matches: a regular expression for all of
// "PACKAGE: REASON"; empty lines and those with a # first are none. It ends with code 1 when a test or a build failed, when a
// test was skipped that may not be, or when the input ended before all packages had.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	skips := flag.String("skips", "", "append the skipped tests to this file instead of printing them")
	list := flag.String("allowed", "", "fail where a test is skipped whose reason this file does not have")
	flag.Parse()
	var may []*regexp.Regexp
	var err error
	if *list != "" {
		may, err = allowed(*list)
	}
	ok := false
	if err == nil {
		ok, err = run(os.Stdin, os.Stdout, *skips, may)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tested:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// allowed reads the reasons for which tests may be skipped.
func allowed(path string) ([]*regexp.Regexp, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	may := []*regexp.Regexp{} // not nil: a file without a reason allows none
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		x, err := regexp.Compile("^(?:" + line + ")$")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		may = append(may, x)
	}
	return may, nil
}

// run copies what is worth reading from in to out and tells whether all went well. Tests may be skipped for the reasons in
// may; for any, if it is nil.
func run(in io.Reader, out io.Writer, skips string, may []*regexp.Regexp) (ok bool, err error) {
	r := &reader{out: bufio.NewWriter(out), packages: map[string]*pack{}, may: may}
	err = errors.Join(r.read(in), r.out.Flush())
	for _, name := range slices.Sorted(maps.Keys(r.packages)) {
		err = errors.Join(err, fmt.Errorf("go test said no end of %s", name))
	}
	if skips == "" {
		_, e := fmt.Fprint(out, r.list())
		return !r.failed, errors.Join(err, e)
	}
	f, e := os.OpenFile(skips, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if e == nil {
		_, e = f.WriteString(r.list())
		e = errors.Join(e, f.Close())
	}
	return !r.failed, errors.Join(err, e)
}

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// pack is a package that is being tested.
type pack struct {
	said  []string            // by no test
	tests map[string][]string // by tests that have not ended
}

// skip is a reason for which tests of a package did not run.
type skip struct {
	pack, reason string
	tests        []string
}

type reader struct {
	out      *bufio.Writer
	packages map[string]*pack // those that have not ended
	skipped  []*skip
	may      []*regexp.Regexp // reasons for which a test may be skipped; nil for any
	failed   bool
}

func (r *reader) read(in io.Reader) error {
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) != nil || e.Action == "" {
			r.out.Write(line) // of go itself, which has no other place for it
		} else {
			r.take(&e)
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read what go test says: %w", err)
		}
	}
}

func (r *reader) take(e *event) {
	switch e.Action {
	case "build-output":
		r.out.WriteString(e.Output)
		return
	case "build-fail":
		r.failed = true
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &pack{tests: map[string][]string{}}
		r.packages[e.Package] = p
	}
	switch {
	case e.Action == "output" && e.Test == "":
		p.said = append(p.said, e.Output)
	case e.Action == "output":
		if !progress(e.Output) {
			p.tests[e.Test] = append(p.tests[e.Test], e.Output)
		}
	case e.Test != "":
		r.end(e, p)
	case e.Action == "pass", e.Action == "fail", e.Action == "skip":
		r.endPackage(e, p)
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

// end is the end of a test.
func (r *reader) end(e *event, p *pack) {
	switch e.Action {
	case "fail":
		r.failed = true
		for _, line := range p.tests[e.Test] {
			r.out.WriteString(line)
		}
		r.out.Flush()
	case "skip":
		r.skip(e, p.tests[e.Test])
	case "pass":
	default:
		return
	}
	delete(p.tests, e.Test)
}

func (r *reader) skip(e *event, said []string) {
	reason := reasonOf(said)
	whole := e.Package + ": " + reason
	if r.may != nil && !slices.ContainsFunc(r.may, func(x *regexp.Regexp) bool { return x.MatchString(whole) }) {
		r.failed = true
		fmt.Fprintf(r.out, "--- FAIL: %s may not be skipped: %s\n", e.Test, whole)
		r.out.Flush()
	}
	for _, s := range r.skipped {
		if s.pack == e.Package && s.reason == reason {
			s.tests = append(s.tests, e.Test)
			return
		}
	}
	r.skipped = append(r.skipped, &skip{e.Package, reason, []string{e.Test}})
}

// place is where a test's line comes from.
var place = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: `)

// reasonOf is the last thing that a skipped test said, in one line.
func reasonOf(said []string) string {
	var reason []string
	for _, line := range said {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "--- SKIP: "), trimmed == "":
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

// endPackage is the end of a package: what go test prints of one, and if it failed, all that is known of tests that were
// under way.
func (r *reader) endPackage(e *event, p *pack) {
	delete(r.packages, e.Package)
	failed := e.Action == "fail"
	if failed {
		r.failed = true
		for _, test := range slices.Sorted(maps.Keys(p.tests)) {
			for _, line := range p.tests[test] {
				r.out.WriteString(line)
			}
		}
	}
	for _, line := range p.said {
		if failed && !progress(line) || strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
			r.out.WriteString(line)
		}
	}
	r.out.Flush()
}

// list is the skipped tests, a line for each reason.
func (r *reader) list() string {
	var b strings.Builder
	for _, s := range r.skipped {
		more := ""
		if n := len(s.tests) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(&b, "skipped: %s %s%s: %s\n", s.pack, s.tests[0], more, s.reason)
	}
	return b.String()
}
