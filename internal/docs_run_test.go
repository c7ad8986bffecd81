package internal_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/lab/deploy/agenttest"
)

var (
	buildOnce sync.Once
	binDir    string
	buildErr  error
)

// command is a shell line of the manual, with the real program in its path: the one that TARE_BIN names, or one built
// for this test.
func command(t *testing.T, dir, line string) *exec.Cmd {
	t.Helper()
	buildOnce.Do(func() {
		if binDir, buildErr = os.MkdirTemp("", "tare-docs-bin-"); buildErr != nil {
			return
		}
		if built := os.Getenv("TARE_BIN"); built != "" {
			buildErr = os.Symlink(built, filepath.Join(binDir, "tare"))
			return
		}
		cmd := exec.Command("go", "build", "-o", filepath.Join(binDir, "tare"), "tare/cmd/tare")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			buildErr = fmt.Errorf("%w: %s", err, out)
		}
	})
	if buildErr != nil {
		t.Fatalf("build tare: %v", buildErr)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	// The manual shows a machine without VirtualBox; other tests have one.
	cmd.Env = append(os.Environ(), "TARE_VIRTUALBOX_ROOT=",
		"PATH="+binDir+string(os.PathListSeparator)+os.Getenv("PATH"), "TMPDIR="+dir)
	return cmd
}

func TestMain(m *testing.M) {
	code := agenttest.Main(m)
	if binDir != "" {
		os.RemoveAll(binDir)
	}
	os.Exit(code)
}

// step is a command of a block and the output that the manual shows.
type step struct {
	line   string
	output []string
}

// steps takes a block of commands apart. A backslash at the end of a line goes on with the next one.
func steps(text []string) []step {
	var out []step
	for i := 0; i < len(text); i++ {
		line, ok := strings.CutPrefix(text[i], "$ ")
		if !ok {
			last := &out[len(out)-1]
			last.output = append(last.output, text[i])
			continue
		}
		for strings.HasSuffix(line, `\`) && i+1 < len(text) {
			i++
			line += "\n" + text[i]
		}
		out = append(out, step{line: line})
	}
	return out
}

// TestDocsCommands runs every `$ tare` block, document by document, each in a folder of its own that holds the
// examples and the bundles of testdata.
func TestDocsCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the commands of the manual are not run")
	}
	for _, doc := range documents(t) {
		t.Run(filepath.Base(doc), func(t *testing.T) {
			lines, list := readDocument(t, doc)
			if !slices.ContainsFunc(list, func(b block) bool {
				return len(b.text) > 0 &&
					strings.HasPrefix(b.text[0], "$ ")
			}) {
				return
			}
			if !*update {
				t.Parallel()
			}
			// A short path: sockets are made below it.
			dir, err := os.MkdirTemp("", "td")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			for _, given := range []string{"examples", filepath.Join("testdata", "bundles")} {
				if err := os.CopyFS(filepath.Join(dir, given), os.DirFS(filepath.Join(root, given))); err != nil {
					t.Fatal(err)
				}
			}
			// From the last to the first an update would not move what is still to be written.
			var rewritten [][]string
			for i := range list {
				rewritten = append(rewritten, runBlock(t, dir, doc, &list[i]))
			}
			if *update {
				for i, b := range slices.Backward(list) {
					if rewritten[i] != nil {
						lines = slices.Replace(lines, b.first, b.last, rewritten[i]...)
					}
				}
				if err := os.WriteFile(doc, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// runBlock carries out one block and returns its text with the outputs that were seen, or nil where it stays as it is.
func runBlock(t *testing.T, dir, doc string, b *block) []string {
	t.Helper()
	if name, ok := b.mark("file"); ok {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(b.text, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, notRun := b.mark("not run:")
	if len(b.text) == 0 || !strings.HasPrefix(b.text[0], "$ ") || notRun {
		return nil
	}
	at := fmt.Sprintf("%s:%d", doc, b.first)
	if what, ok := b.mark("needs"); ok && !has(t, what) {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatalf("%s needs %s, which is not here", at, what)
		}
		t.Logf("%s is not run: %s is not here", at, what)
		return nil
	}
	_, shape := b.mark("shape")
	_, example := b.mark("example")
	want := 0
	if code, ok := b.mark("exit"); ok {
		fmt.Sscan(code, &want)
	}
	var rewritten []string
	for _, s := range steps(b.text) {
		cmd := command(t, dir, s.line)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		began := time.Now()
		err := cmd.Run()
		if cmd.ProcessState == nil {
			t.Fatalf("%s: %s: %v", at, s.line, err)
		}
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: %s\nended with %d, want %d:\n%s", at, s.line, got, want, out.String())
			return nil
		}
		t.Logf("%s: %.1f s: %s", at, time.Since(began).Seconds(), s.line)
		got := trimmed(out.String())
		problem := ""
		switch {
		case example:
			// What two runs say of each other differs from day to day, and with it the tables.
			if len(got) == 0 && len(s.output) > 0 {
				problem = "nothing was said"
			}
		case shape:
			problem = compareShape(s.output, got)
		case !matches(s.output, got):
			problem = "the output differs"
		}
		rewritten = append(rewritten, strings.Split("$ "+s.line, "\n")...)
		switch {
		case !*update || problem == "" && !(*figures && shape) || slices.ContainsFunc(s.output, elided):
			rewritten = append(rewritten, s.output...)
		default:
			rewritten = append(rewritten, got...)
		}
		if problem != "" && !*update {
			t.Errorf("%s: %s\n%s; the manual shows\n%s\nthe program says\n%s", at, s.line, problem,
				strings.Join(s.output, "\n"), strings.Join(got, "\n"))
		}
	}
	return rewritten
}

func has(t *testing.T, what string) bool {
	switch what {
	case "qemu-img":
		_, err := exec.LookPath(what)
		return err == nil
	case "qemu":
	default:
		t.Fatalf("unknown need %q", what)
	}
	system := map[string]string{"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}[runtime.GOARCH]
	if _, err := exec.LookPath(system); err != nil {
		return false
	}
	out, err := command(t, t.TempDir(), "tare guest list").Output()
	return err == nil && !bytes.HasPrefix(out, []byte("no kernel"))
}

// trimmed splits an output into lines without trailing spaces and without empty lines around it.
func trimmed(s string) []string {
	lines := strings.Split(strings.Trim(s, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines
}

// matches compares exactly, but for lines of three dots, which stand for any number of lines.
func matches(want, got []string) bool {
	want = trimmed(strings.Join(want, "\n"))
	for i, w := range want {
		if elided(w) {
			for skip := range len(got) - i + 1 {
				if matches(want[i+1:], got[i+skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(got) || w != got[i] {
			return false
		}
	}
	return len(want) == len(got)
}

// elided tells whether a line of the manual stands for any number of lines.
func elided(line string) bool { return strings.TrimSpace(line) == "..." }

var (
	spaceRE = regexp.MustCompile(`\s+`)
	gapRE   = regexp.MustCompile(`  +`)
)

// compareShape compares a table by its columns and rows and running text by the words that lines begin with. Lines that
// begin with a sign (legend, findings) depend on the figures and are left out.
func compareShape(want, got []string) string {
	// Where the manual leaves lines out and shows no table, the table is among them.
	w, g := tableShape(want), tableShape(got)
	if !slices.Equal(w, g) && (w != nil || !slices.ContainsFunc(want, elided)) {
		return fmt.Sprintf("the table's columns and rows differ: %q and %q", w, g)
	}
	rest := spaceRE.ReplaceAllString(strings.Join(got, " "), " ")
	for _, l := range want {
		stem := stemOf(l)
		if stem == "" {
			continue
		}
		_, after, ok := strings.Cut(rest, stem)
		if !ok {
			return fmt.Sprintf("there is no %q where the manual has it", stem)
		}
		rest = after
	}
	return ""
}

// stemOf returns the words that a line begins with, at most three and none with a digit.
func stemOf(l string) string {
	if l == "" || elided(l) || strings.HasPrefix(l, " ") || strings.ContainsAny(l[:1], "!-*~=?") || l[0] >= 0x80 {
		return ""
	}
	var stem []string
	for _, w := range strings.Fields(gapRE.Split(l, 2)[0]) {
		if strings.ContainsAny(w, "0123456789") || len(stem) == 3 {
			break
		}
		stem = append(stem, w)
	}
	return strings.Join(stem, " ")
}

// tableShape lists the columns of a report's table, and the names of its rows. The table begins with a line that is
// indented far and ends with an empty line or the legend.
func tableShape(lines []string) []string {
	for i, l := range lines {
		if !strings.HasPrefix(l, "        ") {
			continue
		}
		shape := []string{strings.Join(strings.Fields(l), " ")}
		for _, r := range lines[i+1:] {
			if r == "" || r[0] >= 0x80 || strings.ContainsAny(r[:1], "!-*~=?") {
				break
			}
			shape = append(shape, gapRE.Split(r, 2)[0])
		}
		return shape
	}
	return nil
}

// TestDocsShape holds that the comparison of shapes sees what it should.
func TestDocsShape(t *testing.T) {
	shown := strings.Split(`tare 0.1   baseline host   10 blocks of 2 targets

            host   box
null      1.0 ns   = 1.00 0.99-1.01
= same within 2 %

null control: host against itself 0.3 % spread
repeat: tare run out/plan.yaml`, "\n")
	change := func(old, new string) []string {
		return strings.Split(strings.ReplaceAll(strings.Join(shown, "\n"), old, new), "\n")
	}
	for _, ok := range [][]string{shown, change("1.00 0.99-1.01", "1.20 1.19-1.21"),
		change("= same within 2 %", "▲ costs more"), change("host against itself", "host\nagainst itself")} {
		if p := compareShape(shown, ok); p != "" {
			t.Errorf("%s in\n%s", p, strings.Join(ok, "\n"))
		}
	}
	for _, bad := range [][]string{change("box", "vm"), change("null  ", "nought"), change("repeat:", "again:"),
		change("null control", "control"), nil} {
		if compareShape(shown, bad) == "" {
			t.Errorf("not seen:\n%s", strings.Join(bad, "\n"))
		}
	}
	if p := compareShape([]string{"...", "null control: host"}, shown); p != "" {
		t.Errorf("a table that is left out is compared: %s", p)
	}
	if compareShape([]string{"...", "        host   vm", "null   1.0 ns   = 1.00", ""}, shown) == "" {
		t.Error("not seen: another table, amid lines that are left out")
	}
	if !matches([]string{"a", "...", "c"}, []string{"a", "b", "b", "c"}) || !matches([]string{"..."}, nil) ||
		matches([]string{"a", "...", "c"}, []string{"a", "b"}) || matches([]string{"a"}, []string{"a", "b"}) ||
		matches([]string{"a", "b"}, []string{"a"}) {
		t.Error("three dots do not stand for any number of lines")
	}
}
