package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"testing"
)

// tests are packages whose tests go every way. MARK is a file that is there from the second time on.
var tests = map[string]string{
	"good":   `func TestGood(t *testing.T) { t.Log("not to be seen") }`,
	"always": `func TestAlways(t *testing.T) { t.Log("looked"); t.Errorf("<wrong>\nin %d ways", 2) }`,
	"once": `
func TestFine(t *testing.T) { t.Log("not to be seen") }
func TestOnce(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Log("looked"); once(t, t.Error) }) }`,
	"oncemore": `
func TestOnce(t *testing.T) {
	for _, n := range []string{"a", "b", "c"} { t.Run(n, func(t *testing.T) { once(t, t.Error) }) }
}`,
	"turns":  `func TestTurns(t *testing.T) { once(t, t.Error); if t.Failed() { return }; t.Skip("not again") }`,
	"panics": `func TestPanics(t *testing.T) { once(t, func(...any) { panic("on purpose") }) }`,
	"leaves": `func TestLeaves(t *testing.T) { println("last words"); os.Exit(3) }`,
	"stays":  `func TestStays(t *testing.T) { time.Sleep(time.Hour) }`,
	"around": `
func TestMain(m *testing.M) {
	m.Run()
	if _, err := os.Stat(os.Getenv("MARK")); err != nil {
		os.WriteFile(os.Getenv("MARK"), nil, 0o644)
		println("something was left")
		os.Exit(1)
	}
}
func TestGood(t *testing.T) {}`,
	"broken": `func TestBroken(t *testing.T) { return 7 }`,
	"skips": `
func TestNo(t *testing.T) { t.Log("looked"); t.Skip("no \"moon\"\nnor sun") }
func TestMany(t *testing.T) {
	for _, n := range []string{"a", "b", "c"} { t.Run(n, func(t *testing.T) { t.Parallel(); t.Skip("no stars") }) }
}
func TestSilent(t *testing.T) { t.SkipNow() }`,
}

// once is what the packages share.
const once = `

import (
	"os"
	"strings"
	"testing"
	"time"
)

func once(t *testing.T, fail func(...any)) {
	mark := os.Getenv("MARK") + strings.ReplaceAll(t.Name(), "/", "-")
	if _, err := os.Stat(mark); err != nil {
		os.WriteFile(mark, nil, 0o644)
		fail("the first time it fails")
	}
}
var _ = time.Hour
`

// workshop is a folder for all tests: the packages, and what gotestsum wrote of them.
var workshop string

func TestMain(m *testing.M) {
	code := m.Run()
	if workshop != "" {
		os.RemoveAll(workshop)
	}
	os.Exit(code)
}

// prepared makes the packages, and returns the gotestsum that this project's tests are run with.
var prepared = sync.OnceValues(func() (gotestsum string, err error) {
	if workshop, err = os.MkdirTemp("", "tare-tested-"); err != nil {
		return "", err
	}
	files := map[string]string{"go.mod": "module example.test\n\ngo 1.26\n", "nothing/nothing.go": "package nothing\n"}
	for name, body := range tests {
		files[name+"/a_test.go"] = "package " + name + once + body
	}
	for name, text := range files {
		path := filepath.Join(workshop, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return "", err
		}
	}
	// The go command keeps what it built and tells where.
	cmd := exec.Command("go", "tool", "-modfile=../../tools/go.mod", "-n", "gotestsum")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("build gotestsum: %w\n%s", err, said.String())
	}
	return strings.TrimSpace(string(out)), err
})

// outcome is the file that gotestsum wrote, and whether that was content.
type outcome struct {
	file string
	ok   bool
}

var (
	mu   sync.Mutex
	runs = map[string]func() (outcome, error){}
)

// ran has the real gotestsum run packages as scripts/test.sh does, once for all tests that ask for the same.
func ran(t *testing.T, packages string) (file string, ok bool) {
	t.Helper()
	mu.Lock()
	run := runs[packages]
	if run == nil {
		n := len(runs)
		run = sync.OnceValues(func() (outcome, error) { return runPackages(n, packages) })
		runs[packages] = run
	}
	mu.Unlock()
	got, err := run()
	if err != nil {
		t.Fatal(err)
	}
	return got.file, got.ok
}

func runPackages(n int, packages string) (outcome, error) {
	gotestsum, err := prepared()
	if err != nil {
		return outcome{}, err
	}
	timeout := "1m"
	if packages == "stays" { // until then
		timeout = "1s"
	}
	file := filepath.Join(workshop, fmt.Sprintf("run%d.json", n))
	cmd := exec.Command(gotestsum, "--format", "pkgname-and-test-fails",
		"--rerun-fails=2", "--rerun-fails-max-failures=8", "--jsonfile", file,
		"--packages", "./"+strings.Join(strings.Fields(packages), " ./"), "--", "-vet=off", "-ldflags=-s -w",
		"-count=1", "-timeout", timeout)
	// Without the folder's path in them, what was compiled is there the next time.
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off",
		"MARK="+filepath.Join(workshop, fmt.Sprintf("mark%d", n)))
	cmd.Dir = workshop
	out, err := cmd.CombinedOutput()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		return outcome{}, fmt.Errorf("%w\n%s", err, out)
	}
	return outcome{file, err == nil}, nil
}

// TestEveryWay runs packages that go every way, and holds what is said of each: whether the run passes, its last line,
// and words that are there.
func TestEveryWay(t *testing.T) {
	for _, c := range []struct {
		packages   string
		ok, runner bool // whether all went well, and whether gotestsum said so
		counts     string
		words      []string
	}{
		{"good nothing", true, true, "1 passed, 0 failed, 0 skipped", nil},
		{"always good", false, false, "1 passed, 1 failed, 0 skipped",
			[]string{"--- FAIL: example.test/always TestAlways\n", "<wrong>\n", "in 2 ways"}},
		{"once", true, true, "3 passed, 0 failed, 0 skipped",
			[]string{"FLAKY example.test/once TestOnce/sub: the first time it fails\n3 passed,"}},
		{"once oncemore", false, true, "3 passed, 4 failed, 0 skipped",
			[]string{"4 tests were flaky, more than 3", "FLAKY example.test/oncemore TestOnce/b: the first"}},
		{"turns", false, true, "0 passed, 1 failed, 0 skipped",
			[]string{"failed, and was skipped when it was repeated"}},
		{"panics", false, false, "0 passed, 1 failed, 0 skipped", []string{"panic: on purpose"}},
		{"leaves", false, false, "0 passed, 1 failed, 0 skipped", []string{"TestLeaves did not end", "last words"}},
		{"stays", false, false, "0 passed, 1 failed, 0 skipped", []string{"TestStays did not end",
			"panic: test timed out"}},
		{"around", false, true, "1 passed, 1 failed, 0 skipped", []string{"something was left"}},
		{"broken", false, false, "0 passed, 1 failed, 0 skipped", []string{"too many return values"}},
		{"skips", true, true, "1 passed, 0 failed, 5 skipped", []string{
			"skipped: example.test/skips TestNo: no \"moon\" nor sun\n",
			"skipped: example.test/skips TestMany/a and 2 more: no stars\n",
			"skipped: example.test/skips TestSilent: no reason given\n"}},
	} {
		t.Run(c.packages, func(t *testing.T) {
			t.Parallel()
			// Other tests need two of these as well.
			if testing.Short() && !slices.Contains([]string{"once", "skips", "leaves"}, c.packages) {
				t.Skip("packages are built and run")
			}
			file, runner := ran(t, c.packages)
			text, ok := said(t, file, "")
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if ok != c.ok || runner != c.runner || lines[len(lines)-1] != c.counts {
				t.Errorf("ok %v, gotestsum's %v, want %v and %v, and last %q:\n%s",
					ok, runner, c.ok, c.runner, c.counts, text)
			}
			for _, w := range c.words {
				if !strings.Contains(text, w) {
					t.Errorf("%q is missing in\n%s", w, text)
				}
			}
			if strings.Contains(text, "not to be seen") || strings.Contains(text, "=== ") {
				t.Errorf("too much:\n%s", text)
			}
		})
	}
}

// written is a file with that text.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func said(t *testing.T, file, list string, besides ...string) (text string, ok bool) {
	t.Helper()
	var out bytes.Buffer
	ok, err := report(&out, []string{file}, list, "", besides, nil)
	if err != nil {
		t.Error(err)
	}
	return out.String(), ok
}

// TestARunThatIsCutOffIsAFailure: what is not known is not taken for good.
func TestARunThatIsCutOffIsAFailure(t *testing.T) {
	file, _ := ran(t, "good")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n"))
	for name, text := range map[string][]byte{
		"no end of it":        bytes.Join(lines[:len(lines)-1], nil),
		"no event of go test": whole[:len(whole)-20],
		"tells of no package": nil,
	} {
		if text, ok := said(t, written(t, string(text)), ""); ok || !strings.Contains(text, name) {
			t.Errorf("%s: %v\n%s", name, ok, text)
		}
	}
	if text, ok := said(t, file+".missing", ""); ok || !strings.HasSuffix(text, "0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("a file that is not there: %v\n%s", ok, text)
	}
	text, ok := said(t, file, "", "the house burnt")
	if ok || !strings.Contains(text, "FAIL: the house burnt\n1 passed, 1 failed,") {
		t.Errorf("a step that failed: %v\n%s", ok, text)
	}
	// What gotestsum fails for is counted once.
	for failed, want := range map[string]string{"a step": "1 passed, 1 failed,",
		"": "FAIL: no reason\n1 passed, 1 failed,"} {
		var out bytes.Buffer
		var steps []string
		if failed != "" {
			steps = []string{failed}
		}
		ok, err := report(&out, []string{file}, "", "", steps, []string{"no reason"})
		if ok || err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%q and gotestsum: %v %v\n%s", failed, ok, err, out.String())
		}
	}
}

func TestWhatOutlivesTheOutput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	for _, c := range []struct{ name, summary, flaky string }{
		{"once", "3 passed, 0 failed, 0 skipped\n",
			"FLAKY example.test/once TestOnce/sub: the first time it fails\n    a_test.go:"},
		{"good", "1 passed, 0 failed, 0 skipped\n", ""},
	} {
		file, _ := ran(t, c.name)
		if ok, err := report(&bytes.Buffer{}, []string{file}, "", dir, nil, nil); !ok || err != nil {
			t.Fatal(ok, err)
		}
		summary, err := os.ReadFile(filepath.Join(dir, "summary.txt"))
		if err != nil || string(summary) != c.summary {
			t.Errorf("%s: %q, %v", c.name, summary, err)
		}
		flaky, err := os.ReadFile(filepath.Join(dir, "flaky.txt"))
		if err != nil || !strings.HasPrefix(string(flaky), c.flaky) || (c.flaky == "") != (len(flaky) == 0) {
			t.Errorf("%s: %q, %v", c.name, flaky, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, lines := range [][]string{
		{`{"Action":"start","Package":"p"}`,
			`{"Action":"output","Package":"p","Test":"T","Output":"    x_test.go:1: why\n"}`,
			`{"Action":"skip","Package":"p","Test":"T"}`, `{"Action":"pass","Package":"p"}`},
		{"go: no such tool", "{"},
		{`{"Action":"build-output","ImportPath":"p","Output":"# p\n"}`,
			`{"Action":"fail","Package":"p","FailedBuild":"p"}`},
		{`{"Action":"fail","Package":"p","Test":"T"}`, `{"Action":"fail","Package":"p"}`,
			`{"Action":"pass","Package":"p","Test":"T"}`},
	} {
		f.Add([]byte(strings.Join(lines, "\n")))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &reader{packages: map[string]*pack{}}
		s := &summary{ran: map[string]bool{}}
		if err := r.read(bytes.NewReader(b)); err != nil {
			s.fail(err.Error(), nil)
		}
		r.judge(s)
		s.bound()
		if s.passed < 0 || s.skips < 0 || s.failed < 0 {
			t.Errorf("%q: %s", b, s.counts())
		}
		if s.failed+len(s.flaky) == 0 && failures(r) > 0 {
			t.Errorf("%q: a failure was lost: %s", b, s.counts())
		}
	})
}

// failures counts the attempts that failed.
func failures(r *reader) (n int) {
	for _, p := range r.packages {
		for _, list := range p.tests {
			for _, a := range list {
				if a.failed() {
					n++
				}
			}
		}
	}
	return n
}

func TestOnlyWhatMayBeSkippedPasses(t *testing.T) {
	file, _ := ran(t, "skips")
	for _, c := range []struct {
		list, counts, said string
	}{
		{"# stars are out\n\nexample.test/skips: no .*\nexample.test/skips: no reason given\n",
			"1 passed, 0 failed, 5 skipped", ""},
		{"example.test/skips: no .moon. nor sun\nexample.test/skips: no reason given\n",
			"1 passed, 3 failed, 2 skipped", "TestMany/a may not be skipped: example.test/skips: no stars"},
		{"example.test/other: .*\n", "1 passed, 5 failed, 0 skipped", "TestNo may not be skipped"},
		// A part of the line is not enough.
		{"no stars\n", "1 passed, 5 failed, 0 skipped", "may not be skipped: example.test/skips: no stars"},
		{"", "1 passed, 5 failed, 0 skipped", "TestSilent may not be skipped: example.test/skips: no reason given"},
	} {
		text, ok := said(t, file, written(t, c.list))
		if ok != (c.said == "") || !strings.Contains(text, c.said) || !strings.HasSuffix(text, c.counts+"\n") {
			t.Errorf("%q: %v\n%s", c.list, ok, text)
		}
	}
	if _, err := allowed(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a file that is not there allows nothing, and says so")
	}
}

// TestASkipAfterAPassIsNone: the last run leaves out what takes long. What it skips is tested where an earlier run
// passed it, in the same package, and nowhere else.
func TestASkipAfterAPassIsNone(t *testing.T) {
	event := func(action, test string) string {
		return fmt.Sprintf(`{"Action":%q,"Package":"p","Test":%q}`+"\n", action, test)
	}
	const end = `{"Action":"pass","Package":"p"}` + "\n"
	passes, skips := event("pass", "T")+end, event("skip", "T")+end
	flaky, fails := event("fail", "T")+event("pass", "T")+end, event("fail", "T")+`{"Action":"fail","Package":"p"}`
	for _, c := range []struct {
		name, counts string
		ok           bool
		files        []string
	}{
		{"passed before", "1 passed, 0 failed, 0 skipped", true, []string{passes, skips}},
		{"passed in the first of three", "1 passed, 0 failed, 0 skipped", true, []string{passes, skips, skips}},
		{"flaky before", "1 passed, 0 failed, 0 skipped", true, []string{flaky, skips}},
		{"a part of it passed before", "2 passed, 0 failed, 0 skipped", true,
			[]string{event("pass", "T/a") + passes, event("skip", "T/a") + skips}},
		{"passed nowhere", "0 passed, 1 failed, 0 skipped", false, []string{skips}},
		{"passed nowhere, twice", "0 passed, 2 failed, 0 skipped", false, []string{skips, skips}},
		{"passed only afterwards", "1 passed, 1 failed, 0 skipped", false, []string{skips, passes}},
		{"failed before", "0 passed, 2 failed, 0 skipped", false, []string{fails, skips}},
		{"another package's passed", "1 passed, 1 failed, 0 skipped", false,
			[]string{strings.ReplaceAll(passes, `"p"`, `"q"`), skips}},
		{"another test passed", "1 passed, 1 failed, 0 skipped", false,
			[]string{event("pass", "U") + end, skips}},
	} {
		var files []string
		for _, text := range c.files {
			files = append(files, written(t, text))
		}
		var out bytes.Buffer
		ok, err := report(&out, files, written(t, "# nothing\n"), "", nil, nil)
		if ok != c.ok || err != nil || !strings.HasSuffix(out.String(), c.counts+"\n") {
			t.Errorf("%s: %v %v, want %v and %s\n%s", c.name, ok, err, c.ok, c.counts, out.String())
		}
		if strings.Contains(out.String(), "may not be skipped: p: no reason given") == c.ok {
			t.Errorf("%s:\n%s", c.name, out.String())
		}
	}
}

// TestTheListOfThisProject reads the list that the tests are run with.
func TestTheListOfThisProject(t *testing.T) {
	may, err := allowed("allowed")
	if err != nil || len(may) == 0 {
		t.Fatal(may, err)
	}
	for reason, want := range map[string]bool{
		"tare/internal/lab/driver/qemu: this test of the driver names no mounts": true,
		"tare/internal/cli: qemu-img is not installed":                           false,
		"tare/internal/lab/driver/ssh: ssh is not installed":                     false,
		"tare/internal/run/semantics: mounting needs root":                       false,
	} {
		if got := slices.ContainsFunc(may, func(x *regexp.Regexp) bool { return x.MatchString(reason) }); got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
}

// TestTheListHasNoReasonThatNobodyGives: a reason that no test gives any more would let another one be skipped unseen.
func TestTheListHasNoReasonThatNobodyGives(t *testing.T) {
	list, err := os.ReadFile("allowed")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder // of the files with a skip
	for _, dir := range []string{"../../internal", "../../bench", "../../scripts"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && path == filepath.FromSlash("../../scripts/tested") {
				return filepath.SkipDir // its tests name reasons, too
			}
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(".Skip")) {
				source.Write(text)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(string(list)) {
		line = strings.TrimSpace(line)
		_, reason, ok := strings.Cut(line, ": ")
		if !ok || line[0] == '#' {
			continue
		}
		said, err := beginnings(reason)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		for _, alternatives := range said {
			if !slices.ContainsFunc(alternatives, func(s string) bool { return strings.Contains(source.String(), s) }) {
				t.Errorf("no test is skipped because of %q any more: %s", alternatives[0], line)
			}
		}
	}
}

// beginnings are the texts that an expression's matches begin with, up to what is no plain text, one for each
// alternative. Each has what may be in a test for it: the whole, or what is before a choice, with a verb of fmt.
func beginnings(expression string) (all [][]string, err error) {
	x, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	found := []text{{}}
	extend(&found, x)
	for _, b := range found {
		said := []string{b.whole}
		if b.choice > 0 {
			said = append(said, b.whole[:b.choice]+"%")
		}
		if strings.TrimSpace(b.whole) == "" {
			return nil, errors.New("it begins with no text, so that any reason would do")
		}
		all = append(all, said)
	}
	return all, nil
}

// text is one beginning: choice is where the first choice begins in it.
type text struct {
	whole  string
	choice int
	ended  bool // by what is no plain text
}

func extend(found *[]text, x *syntax.Regexp) {
	each := func(do func(b *text)) {
		for i := range *found {
			if b := &(*found)[i]; !b.ended {
				do(b)
			}
		}
	}
	switch x.Op {
	case syntax.OpLiteral:
		each(func(b *text) { b.whole += string(x.Rune) })
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range x.Sub {
			extend(found, sub)
		}
	case syntax.OpAlternate:
		var all []text
		each(func(b *text) { b.choice = cmp.Or(b.choice, len(b.whole)) })
		for _, sub := range x.Sub {
			some := slices.Clone(*found)
			extend(&some, sub)
			all = append(all, some...)
		}
		*found = all
	default:
		each(func(b *text) { b.ended = true })
	}
}

func TestBeginnings(t *testing.T) {
	for expression, want := range map[string]string{
		`no (vfat|ext4 x)\b.*`: `[["no vfat" "no %"] ["no ext4 x" "no %"]]`,
		`up to 7\.2`:           `[["up to 7.2"]]`,
		`(a|b (cc|dd)) e .* f`: `[["a e "] ["b cc e " "b %"] ["b dd e " "b %"]]`,
		`(|a).*`:               "no text", `.*`: "no text", `(a|.*)`: "no text", `(`: "missing",
	} {
		all, err := beginnings(expression)
		got := fmt.Sprintf("%q", all)
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
}
