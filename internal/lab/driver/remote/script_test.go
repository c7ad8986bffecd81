package remote

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestScriptsSuitAnyLoginShell(t *testing.T) {
	for _, s := range []string{putScript, keepScript, clearScript} {
		if strings.ContainsAny(s, "\\!\n") {
			t.Errorf("a backslash, an exclamation mark or a newline is not the same in all shells: %s", s)
		}
	}
}

// sh runs a script like Open does, with input, and returns its standard output.
func sh(t *testing.T, input, script string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs sh")
	}
	cmd := exec.Command("sh", append([]string{"-c", script}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	return string(out), err
}

func TestPutKeepClear(t *testing.T) {
	bad, good := filepath.Join(t.TempDir(), "absent"), filepath.Join(t.TempDir(), "a b'c")
	if err := os.Mkdir(good, 0o755); err != nil {
		t.Fatal(err)
	}
	put := func() string {
		t.Helper()
		out, err := sh(t, "the agent", putScript, ".tare-r-x", "tare-agent", bad, good)
		if err != nil {
			t.Fatal(err)
		}
		p, err := putAnswer([]byte("banner\r\nprompt$ "+out), ".tare-r-x", "tare-agent")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(p); err != nil || string(b) != "the agent" ||
			p != filepath.Join(good, ".tare-r-x", "tare-agent") {
			t.Fatalf("%s holds %q, %v", p, b, err)
		}
		for name, want := range map[string]os.FileMode{p: 0o700, filepath.Dir(p): 0o700} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		return filepath.Dir(p)
	}
	for _, c := range []struct {
		name, input, script string
		stays               bool
	}{
		{"clear", "", clearScript, false},
		{"the controller dies", "", keepScript, false},
		{"the controller dies while it speaks", handedOver[:5], keepScript, false},
		{"handed over", handedOver + "\n", keepScript, true},
	} {
		dir := put()
		if _, err := sh(t, c.input, c.script, ".tare-r-x", bad, good); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := os.Stat(dir); (err == nil) != c.stays {
			t.Errorf("%s: it is there: %v", c.name, err == nil)
		}
		os.RemoveAll(dir)
	}
	// An existing directory belongs to somebody else.
	if err := os.Mkdir(filepath.Join(good, ".tare-r-x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := sh(t, "x", putScript, ".tare-r-x", "tare-agent", good); err == nil {
		t.Errorf("put into a directory that was there: %s", out)
	}
}

// If nobody reads the answer, nothing is left.
func TestPutWithoutController(t *testing.T) {
	base := t.TempDir()
	cmd := exec.Command("sh", "-c", putScript, ".tare-r-x", "tare-agent", base)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = strings.NewReader("half an agent"), w
	r.Close()
	err = cmd.Run()
	w.Close()
	if left, _ := os.ReadDir(base); err == nil || len(left) > 0 {
		t.Errorf("error %v, left %v", err, left)
	}
}

func FuzzPutAnswer(f *testing.F) {
	f.Add([]byte("noise\ntare-put:/tmp/.tare-r-x/tare-agent\r\n"))
	f.Add([]byte("tare-put:/etc/../passwd"))
	f.Fuzz(func(t *testing.T, out []byte) {
		p, err := putAnswer(out, ".tare-r-x", "tare-agent")
		if err == nil && (!strings.HasPrefix(p, "/") || !strings.HasSuffix(p, "/.tare-r-x/tare-agent") ||
			strings.ContainsAny(p, "\n\x00\x1b")) {
			t.Fatalf("%q gives %q", out, p)
		}
	})
}
