package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBundleOfALaterRelease holds that whoever reads one is told so, and that nothing in it reaches the terminal raw.
func TestBundleOfALaterRelease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	if err := os.CopyFS(dir, os.DirFS("../../testdata/bundles/demo")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "tare.json")
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(src, &m); err != nil {
		t.Fatal(err)
	}
	m["version"], m["moons"], m["redacted"] = "999.0.0\x1b[2J", 3, map[string]int{"\x1b[H": 1}
	if src, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, src, 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, said := typed("", "verify", dir)
	if code != exitOK || !strings.Contains(out, "fields that this tare does not know: moons") {
		t.Errorf("verify: exit code %d, %s%s", code, out, said)
	}
	if strings.Contains(out+said, "\x1b") {
		t.Errorf("verify prints an escape sequence: %q", out+said)
	}
	m["version"] = "999.0.0"
	if src, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, src, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, said := typed("", "report", dir); code != exitOK || !strings.Contains(said, "tare 999.0.0 wrote") {
		t.Errorf("report: exit code %d, %s", code, said)
	}
	packed := filepath.Join(t.TempDir(), "x.tare")
	code, out, said = typed("", "bundle", "pack", "--redact", dir, "-o", packed)
	if code != exitOK || !strings.Contains(out, "fields that this tare does not know") {
		t.Errorf("pack --redact: exit code %d, %s%s", code, out, said)
	}
	if code, out, said := typed("", "verify", packed); code != exitOK || strings.Contains(out, "moons") {
		t.Errorf("verify of the redacted: exit code %d, %s%s", code, out, said)
	}
}
