package bundle

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/plan"
)

func TestEvidenceNames(t *testing.T) {
	dir, w := newBundle(t, 0)
	for _, name := range []string{"", "..", "../x", "/etc/passwd", "a/b", `a\b`, ".hidden", "a\x00b", "a b",
		strings.Repeat("x", 101), "é"} {
		if p, err := w.Evidence(name, nil); err == nil {
			t.Errorf("%q was accepted as %q", name, p)
		}
		if p, err := w.Evidence(EvidenceName(name), nil); err != nil {
			t.Errorf("EvidenceName(%q) = %q: %v, %v", name, EvidenceName(name), p, err)
		}
	}
	// A manifest that lists foreign files must not make Verify read them.
	if err := w.Finish(Finished, 1); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, ManifestFile)
	src, _ := os.ReadFile(file)
	var m Manifest
	if err := json.Unmarshal(src, &m); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"../secret", "/etc/passwd", "console/../../x", "console/", "tare.json", "console/a/b"} {
		m.Files = append(m.Files, File{Path: p})
	}
	src, _ = json.Marshal(m)
	if err := os.WriteFile(file, src, 0o644); err != nil {
		t.Fatal(err)
	}
	if r, found := verify(t, dir); len(r.Problems) != 6 {
		t.Errorf("%d problems: %s", len(r.Problems), found)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir, w := newBundle(t, 1)
	w.Close()
	file := filepath.Join(dir, ManifestFile)
	good, _ := os.ReadFile(file)
	for name, c := range map[string]struct {
		src  string
		want error
	}{
		"newer":     {`{"schema":2,"version":"9.0","trials":"in another form"}`, ErrNewer},
		"not json":  {"hello", ErrNotBundle},
		"no schema": {`{}`, ErrNotBundle},
		"state":     {strings.Replace(string(good), `"running"`, `"walking"`, 1), nil},
	} {
		if err := os.WriteFile(file, []byte(c.src), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: Open says %v", name, err)
		}
		if _, err := Verify(dir); err == nil {
			t.Errorf("%s: Verify accepts it", name)
		}
		if _, _, err := Resume(dir); err == nil {
			t.Errorf("%s: Resume accepts it", name)
		}
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNotBundle) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// TestWhatIsMissing holds that what is not there is called that, by its name.
func TestWhatIsMissing(t *testing.T) {
	for _, name := range []string{PlanFile, EnvironmentsFile, TrialsFile} {
		dir := finished(t, 3)
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		b, err := Open(dir)
		if err == nil {
			_, err = b.Load()
		}
		if err == nil || !strings.Contains(err.Error(), name+" is missing") || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		if err := Pack(dir, filepath.Join(t.TempDir(), "x.tare")); err == nil ||
			!strings.Contains(err.Error(), "missing") {
			t.Errorf("pack without %s: %v", name, err)
		}
	}
	if err := Pack(t.TempDir(), filepath.Join(t.TempDir(), "x.tare")); !errors.Is(err, ErrNotBundle) {
		t.Errorf("pack an empty folder: %v", err)
	}
}

// TestADamagedPlanIsNoMistakeOfTheUser keeps the program's exit code for bad plans to the plans that users write.
func TestADamagedPlanIsNoMistakeOfTheUser(t *testing.T) {
	dir := finished(t, 1)
	if err := os.WriteFile(filepath.Join(dir, PlanFile), []byte("schema: 1\nname: [\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir)
	if list, ok := errors.AsType[plan.Errors](err); ok || err == nil || !strings.Contains(err.Error(), PlanFile+":2:") {
		t.Errorf("%v (%d mistakes in a plan)", err, len(list))
	}
}

func TestCreateRefuses(t *testing.T) {
	dir, w := newBundle(t, 1)
	if _, err := Create(dir, "run-2", testPlan()); !errors.Is(err, ErrResumable) ||
		!strings.Contains(err.Error(), "--resume") {
		t.Errorf("over a run that goes on: %v", err)
	}
	if _, _, err := Resume(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("resume what another writes: %v", err)
	}
	w.Close()
	if w, _, err := Resume(dir); err != nil {
		t.Errorf("the lock was not given back: %v", err)
	} else {
		w.Close()
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.doc"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(other, "run-3", testPlan()); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("over a folder in use: %v", err)
	}
	if _, err := os.Stat(filepath.Join(other, TrialsFile)); err == nil {
		t.Error("a refused folder was written to")
	}
	// What a beginning that was killed left behind is no obstacle.
	left := t.TempDir()
	for _, name := range []string{TrialsFile, PlanFile, tmpName(ManifestFile)} {
		if err := os.WriteFile(filepath.Join(left, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w, err := Create(left, "run-4", testPlan())
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}
