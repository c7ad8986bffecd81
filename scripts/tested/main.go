// Command tested says how tests went that gotestsum ran, from the files that its --jsonfile wrote: what failed and had
// not been shown, which tests were skipped and why, which were flaky, and in its last line how many there were of each:
//
//	go run ./scripts/tested -allowed scripts/tested/allowed RUN.json...
//
// A test that failed and passed when it was repeated is flaky. It has passed, and a line says so: FLAKY NAME: REASON.
// More than three of them count as failed: a run in which that much goes wrong by chance shows nothing.
//
// With -allowed FILE only those tests may be skipped that a line of the file matches: a regular expression for all of
// "PACKAGE: REASON"; empty lines and those with a # first are none. Another that is skipped counts as failed. With
// -artifacts DIR the last line is written to summary.txt there, and the flaky tests with all that they said to
// flaky.txt. Each -failed WHAT counts as a failed test: a step of the run that is none. A -runner WHAT counts where
// nothing else failed: gotestsum ended with an error, and its file does not tell of which. It ends with code 1 when
// anything failed.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// most is how many flaky tests a run may have.
const most = 3

func main() {
	list := flag.String("allowed", "", "fail where a test is skipped whose reason this file does not have")
	artifacts := flag.String("artifacts", "", "write summary.txt and flaky.txt to this folder")
	var besides, runners []string
	flag.Func("failed", "a step that failed and is no test", func(what string) error {
		besides = append(besides, what)
		return nil
	})
	flag.Func("runner", "an error of gotestsum's", func(what string) error {
		runners = append(runners, what)
		return nil
	})
	flag.Parse()
	ok, err := report(os.Stdout, flag.Args(), *list, *artifacts, besides, runners)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tested:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// report reads what gotestsum wrote and tells whether all went well.
func report(out io.Writer, files []string, list, artifacts string, besides, runners []string) (bool, error) {
	var may []*regexp.Regexp
	if list != "" {
		var err error
		if may, err = allowed(list); err != nil {
			return false, err
		}
	}
	s := &summary{may: may, ran: map[string]bool{}}
	for _, what := range besides {
		s.fail(what, nil)
	}
	for _, file := range files {
		r := &reader{packages: map[string]*pack{}}
		if err := r.readFile(file); err != nil {
			// Its tests are not known, and that must not look as if there were none.
			s.fail(err.Error(), nil)
		}
		r.judge(s)
	}
	s.bound()
	if s.failed == 0 {
		for _, what := range runners {
			s.fail(what, nil)
		}
	}
	if _, err := io.WriteString(out, s.text()); err != nil {
		return false, err
	}
	return s.failed == 0, s.save(artifacts)
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

// skip is a reason for which tests of a package did not run.
type skip struct {
	pack, reason string
	tests        []string
}

// flake is a test that failed and passed when it was repeated.
type flake struct {
	name, reason string
	said         []string
}

// summary is what a run comes to.
type summary struct {
	passed, failed, skips int
	faults                []string // what failed and what it said
	skipped               []*skip
	flaky                 []flake
	ran                   map[string]bool  // tests that passed in a run that was read before, as "PACKAGE.TEST"
	may                   []*regexp.Regexp // reasons for which a test may be skipped; nil for any
}

// fail counts something that failed, and keeps what it said.
func (s *summary) fail(what string, said []string) {
	s.failed++
	s.faults = append(s.faults, "--- FAIL: "+what+"\n"+strings.Join(said, ""))
}

// skip counts a skipped test, as failed where its reason is not one of those that are allowed. One that passed in an
// earlier run is not skipped: the race detector comes last and leaves out what takes long.
func (s *summary) skip(pack, test, reason string) {
	if s.ran[pack+"."+test] {
		return
	}
	whole := pack + ": " + reason
	if s.may != nil && !slices.ContainsFunc(s.may, func(x *regexp.Regexp) bool { return x.MatchString(whole) }) {
		s.fail(test+" may not be skipped: "+whole, nil)
	} else {
		s.skips++
	}
	for _, k := range s.skipped {
		if k.pack == pack && k.reason == reason {
			k.tests = append(k.tests, test)
			return
		}
	}
	s.skipped = append(s.skipped, &skip{pack, reason, []string{test}})
}

// bound counts flaky tests as failed where there are too many.
func (s *summary) bound() {
	if n := len(s.flaky); n > most {
		s.fail(fmt.Sprintf("%d tests were flaky, more than %d", n, most), nil)
		s.failed += n - 1
		s.passed -= n
	}
}

// text is what is printed. The line that counts is the last, and the flaky tests stand before it.
func (s *summary) text() string {
	var b strings.Builder
	for _, fault := range s.faults {
		b.WriteString(fault)
	}
	slices.SortFunc(s.skipped, func(a, b *skip) int { return strings.Compare(a.pack+a.reason, b.pack+b.reason) })
	for _, k := range s.skipped {
		more := ""
		if n := len(k.tests) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		slices.Sort(k.tests)
		fmt.Fprintf(&b, "skipped: %s %s%s: %s\n", k.pack, k.tests[0], more, k.reason)
	}
	for _, f := range s.flaky {
		b.WriteString(f.line())
	}
	b.WriteString(s.counts())
	return b.String()
}

func (f flake) line() string { return fmt.Sprintf("FLAKY %s: %s\n", f.name, f.reason) }

func (s *summary) counts() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skips)
}

// save writes what outlives the run's output, also where no test was flaky: an older file would tell of another run.
func (s *summary) save(dir string) error {
	if dir == "" {
		return nil
	}
	var b strings.Builder
	for _, f := range s.flaky {
		b.WriteString(f.line() + strings.Join(f.said, ""))
	}
	return errors.Join(os.MkdirAll(dir, 0o777),
		os.WriteFile(filepath.Join(dir, "flaky.txt"), []byte(b.String()), 0o666),
		os.WriteFile(filepath.Join(dir, "summary.txt"), []byte(s.counts()), 0o666))
}
