package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var flagRE = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z][a-z-]*)`)

// TestManPages holds that every command has a page that says what its help says, and that roff takes it without a word.
func TestManPages(t *testing.T) {
	otherProcess(t)
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(tareBinary, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("tare %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("man", dir)
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 15 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".1")
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		plain := strings.NewReplacer(`\-`, "-", `\fB`, "", `\fI`, "", `\fR`, "", `\e`, `\`, `\(dq`,
			`"`).Replace(string(b))
		help := run(append(strings.Split(name, "-")[1:], "--help")...)
		for _, m := range flagRE.FindAllStringSubmatch(help, -1) {
			if !strings.Contains(plain, "--"+m[1]) {
				t.Errorf("%s does not tell of --%s", name, m[1])
			}
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"} {
			if !strings.Contains(plain, ".SH "+section+"\n") {
				t.Errorf("%s has no section %s", name, section)
			}
		}
		if strings.Contains(plain, dir) || strings.Contains(plain, "\t") {
			t.Errorf("%s has a tab or a path of this machine in it", name)
		}
	}
	for _, command := range regexp.MustCompile(`(?m)^  ([a-z]+) `).FindAllStringSubmatch(run("--help"), -1) {
		if command[1] == "tare" || command[1] == "help" {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "tare-"+command[1]+".1")); err != nil {
			t.Errorf("no page for tare %s", command[1])
		}
	}
	again := t.TempDir()
	run("man", again)
	for _, page := range pages {
		a, _ := os.ReadFile(page)
		b, _ := os.ReadFile(filepath.Join(again, filepath.Base(page)))
		if string(a) != string(b) {
			t.Errorf("%s is another page the second time", page)
		}
	}
	if _, err := exec.LookPath("groff"); err != nil {
		missing(t, "groff is not installed")
	}
	for _, page := range pages {
		cmd := exec.Command("groff", "-ww", "-k", "-man", "-Tutf8", page)
		var said strings.Builder
		cmd.Stderr = &said
		if out, err := cmd.Output(); err != nil || said.Len() > 0 || len(out) < 500 {
			t.Errorf("groff %s: %v, %d bytes\n%.500s", page, err, len(out), said.String())
		}
	}
}
