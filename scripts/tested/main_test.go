package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// module makes a module of tests that go every way, and returns what the real go test says of it and of some of its
// packages: with -json, and as it is read by people.
func module(t *testing.T, packages ...string) (events, plain []byte) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module example.test\n\ngo 1.26\n",
		"good/good_test.go":  "package good\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) { t.Log(\"not to be seen\") }\n\nfunc TestNo(t *testing.T) { t.Log(\"looked\"); t.Skip(\"no \\\"moon\\\"\\nnor sun\") }\n\nfunc TestMany(t *testing.T) {\n\tfor _, n := range []string{\"a\", \"b\", \"c\"} {\n\t\tt.Run(n, func(t *testing.T) { t.Parallel(); t.Skip(\"no stars\") })\n\t}\n}\n\nfunc TestSilent(t *testing.T) { t.SkipNow() }\n",
		"bad/bad_test.go":    "package bad\n\nimport \"testing\"\n\nfunc TestFine(t *testing.T) { t.Log(\"not to be seen\") }\n\nfunc TestBad(t *testing.T) {\n\tt.Run(\"sub\", func(t *testing.T) { t.Errorf(\"<wrong>\\nin %d ways\", 2) })\n}\n",
		"late/late_test.go":  "package late\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestLeaves(t *testing.T) { println(\"last words\"); os.Exit(3) }\n",
		"panics/p_test.go":   "package panics\n\nimport \"testing\"\n\nfunc TestPanics(t *testing.T) { panic(\"on purpose\") }\n",
		"broken/b_test.go":   "package broken\n\nfunc TestBroken(t *testing.T) {}\n",
		"nothing/nothing.go": "package nothing\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	test := func(flags ...string) (out, both []byte) {
		cmd := exec.Command("go", append(append([]string{"test", "-vet=off", "-count=1"}, flags...), packages...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if _, ended := err.(*exec.ExitError); err != nil && !ended {
			t.Fatal(err)
		}
		return stdout.Bytes(), append(stderr.Bytes(), stdout.Bytes()...)
	}
	events, _ = test("-json")
	_, plain = test()
	return events, plain
}

func shown(t *testing.T, events []byte) (text string, ok bool) {
	t.Helper()
	var out bytes.Buffer
	ok, err := run(bytes.NewReader(events), &out, "", nil)
	if err != nil {
		t.Error(err)
	}
	return out.String(), ok
}

func TestWhatPassesIsShort(t *testing.T) {
	events, _ := module(t, "./good", "./nothing")
	text, ok := shown(t, events)
	lines := strings.Split(text, "\n")
	slices.Sort(lines[:2]) // the package without tests ends first, or not
	slices.Reverse(lines[:2])
	if !ok || len(lines) != 6 || !strings.HasPrefix(lines[0], "ok  \texample.test/good\t") || lines[1] != "?   \texample.test/nothing\t[no test files]" {
		t.Errorf("ok %v:\n%s", ok, text)
	}
	want := "skipped: example.test/good TestNo: no \"moon\" nor sun\n" +
		"skipped: example.test/good TestMany/a and 2 more: no stars\n" +
		"skipped: example.test/good TestSilent: no reason given\n"
	if got := strings.Join(lines[2:], "\n"); strings.NewReplacer("TestMany/b and", "TestMany/a and", "TestMany/c and", "TestMany/a and").Replace(got) != orderOf(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// orderOf is want with its lines in the order of got: tests that run side by side end in any.
func orderOf(got, want string) string {
	if strings.Index(got, "TestSilent") < strings.Index(got, "TestMany") {
		lines := strings.SplitAfter(want, "\n")
		lines[1], lines[2] = lines[2], lines[1]
		return strings.Join(lines, "")
	}
	return want
}

func TestWhatFailsIsShownAsGoShowsIt(t *testing.T) {
	for name, words := range map[string][]string{
		"./bad":    {"--- FAIL: TestBad/sub", "bad_test.go:8: <wrong>\n", "in 2 ways", "FAIL\texample.test/bad\t"},
		"./late":   {"last words", "FAIL\texample.test/late\t"},
		"./panics": {"panic: on purpose", "p_test.go:5", "FAIL\texample.test/panics\t"},
		"./broken": {"undefined: testing", "FAIL\texample.test/broken [build failed]"},
	} {
		events, plain := module(t, name)
		text, ok := shown(t, events)
		if ok {
			t.Errorf("%s: it passes", name)
		}
		for _, w := range words {
			if !strings.Contains(text, w) || !strings.Contains(string(plain), w) {
				t.Errorf("%s: %q is missing in\n%s\nor in what go test itself prints:\n%s", name, w, text, plain)
			}
		}
		if strings.Contains(text, "not to be seen") || strings.Contains(text, "=== ") {
			t.Errorf("%s: too much:\n%s", name, text)
		}
	}
}

func TestInputThatIsCutOffIsAFailure(t *testing.T) {
	events, _ := module(t, "./good")
	lines := bytes.SplitAfter(events, []byte("\n"))
	var out bytes.Buffer
	if _, err := run(bytes.NewReader(bytes.Join(lines[:len(lines)-3], nil)), &out, "", nil); err == nil || !strings.Contains(err.Error(), "no end of example.test/good") {
		t.Errorf("got %v", err)
	}
}

func TestSkipsAreAppendedToAFile(t *testing.T) {
	events, _ := module(t, "./good")
	name := filepath.Join(t.TempDir(), "skips")
	var out bytes.Buffer
	for range 2 {
		if ok, err := run(bytes.NewReader(events), &out, name, nil); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	b, err := os.ReadFile(name)
	if n := bytes.Count(b, []byte("skipped: ")); err != nil || n != 6 || strings.Contains(out.String(), "skipped") {
		t.Errorf("%d lines, %v:\n%s\n%s", n, err, b, out.String())
	}
}

func FuzzRun(f *testing.F) {
	f.Add([]byte(`{"Action":"start","Package":"p"}` + "\n" + `{"Action":"output","Package":"p","Test":"T","Output":"    x_test.go:1: why\n"}` + "\n" +
		`{"Action":"skip","Package":"p","Test":"T"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n"))
	f.Add([]byte("go: no such tool\n{\n"))
	f.Add([]byte(`{"Action":"build-output","ImportPath":"p","Output":"# p\n"}` + "\n" + `{"Action":"build-fail","ImportPath":"p"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		_, _ = run(bytes.NewReader(b), &out, "", nil)
		if out.Len() > 20*len(b)+1000 {
			t.Errorf("%d bytes became %d", len(b), out.Len())
		}
	})
}

func TestOnlyWhatMayBeSkippedPasses(t *testing.T) {
	events, _ := module(t, "./good")
	for _, c := range []struct {
		list string
		ok   bool
		said string
	}{
		{"# stars are out\n\nexample.test/good: no .*\nexample.test/good: no reason given\n", true, ""},
		{"example.test/good: no .moon. nor sun\nexample.test/good: no reason given\n", false, "may not be skipped: example.test/good: no stars"},
		{"example.test/other: .*\n", false, "TestNo may not be skipped"},
		{"no stars\n", false, "may not be skipped: example.test/good: no stars"}, // a part of the line is not enough
		{"", false, "TestSilent may not be skipped: example.test/good: no reason given"},
	} {
		path := filepath.Join(t.TempDir(), "allowed")
		if err := os.WriteFile(path, []byte(c.list), 0o600); err != nil {
			t.Fatal(err)
		}
		may, err := allowed(path)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		ok, err := run(bytes.NewReader(events), &out, "", may)
		if err != nil || ok != c.ok || !strings.Contains(out.String(), c.said) || c.ok && strings.Contains(out.String(), "may not be") {
			t.Errorf("%q: %v %v\n%s", c.list, ok, err, out.String())
		}
	}
	if _, err := allowed(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a file that is not there allows nothing, and says so")
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
