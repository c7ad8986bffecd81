package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/plan"
	"tare/internal/record"
)

// later makes of a finished bundle what a later release would have written: edit changes its JSON, by file, and each
// line of trials; the chain and the digests fit.
func later(t *testing.T, version string, edit map[string]func([]byte) []byte) string {
	t.Helper()
	dir := finished(t, 3)
	read := func(name string) []byte {
		src, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	write := func(name string, src []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), src, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var m Manifest
	if err := json.Unmarshal(read(ManifestFile), &m); err != nil {
		t.Fatal(err)
	}
	for name, change := range edit {
		if name != TrialsFile && name != ManifestFile {
			write(name, change(read(name)))
		}
	}
	if change := edit[TrialsFile]; change != nil {
		var out []byte
		chain := genesis(m.RunID)
		for line := range bytes.Lines(read(TrialsFile)) {
			body, _, _ := split(bytes.TrimSuffix(line, []byte("\n")))
			body = change(body)
			chain = link(chain, body)
			out = append(append(out, body[:len(body)-1]...), chainKey+chain+chainEnd+"\n"...)
		}
		write(TrialsFile, out)
		m.Head = chain
	}
	for i, f := range m.Files {
		src := read(f.Path)
		sum := sha256.Sum256(src)
		m.Files[i].Size, m.Files[i].SHA256 = int64(len(src)), hex.EncodeToString(sum[:])
	}
	m.Version = version
	src, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if change := edit[ManifestFile]; change != nil {
		src = change(src)
	}
	write(ManifestFile, src)
	return dir
}

// members puts members before those of the first object of a JSON text.
func members(more string) func([]byte) []byte {
	return func(src []byte) []byte { return bytes.Replace(src, []byte("{"), []byte("{"+more+","), 1) }
}

func instead(text string) func([]byte) []byte { return func([]byte) []byte { return []byte(text) } }

// TestFieldsOfALaterRelease holds that a field more is no edit, wherever it stands, and that a real edit still is one.
func TestFieldsOfALaterRelease(t *testing.T) {
	for name, c := range map[string]struct {
		edit map[string]func([]byte) []byte
		want []string
	}{
		"trials": {map[string]func([]byte) []byte{TrialsFile: members(`"colour":{"a":[1]},"b":2`)},
			[]string{"b", "colour"}},
		"environments": {map[string]func([]byte) []byte{EnvironmentsFile: instead(`[{"moons":1}]`)}, []string{"moons"}},
		"manifest":     {map[string]func([]byte) []byte{ManifestFile: members(`"signature":"x"`)}, []string{"signature"}},
		"all": {map[string]func([]byte) []byte{ManifestFile: members(`"c":1`), EnvironmentsFile: instead(`[{"b":1}]`),
			TrialsFile: members(`"a":1`)}, []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := later(t, "999.0.0", c.edit)
			if r, found := verify(t, dir); !r.OK() || !slices.Equal(r.Unknown, c.want) {
				t.Errorf("unknown %q, want %q; %s", r.Unknown, c.want, found)
			}
			packed := filepath.Join(t.TempDir(), "x"+Ext)
			if err := Pack(dir, packed); err != nil {
				t.Error(err)
			} else if err := Unpack(packed, filepath.Join(t.TempDir(), "y")); err != nil {
				t.Error(err)
			}
			file := filepath.Join(dir, EnvironmentsFile)
			src, _ := os.ReadFile(file)
			if err := os.WriteFile(file, append(src, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
			if r, _ := verify(t, dir); r.OK() {
				t.Error("an edit of it is not seen")
			}
		})
	}
}

// asItIs changes nothing.
type asItIs struct{}

func (asItIs) Learn(*Bundle, iter.Seq2[[]byte, error]) error { return nil }
func (asItIs) Plan(*plan.Plan)                               {}
func (asItIs) Environment(*record.Environment)               {}
func (asItIs) Trial(*record.Trial)                           {}
func (asItIs) Text(s string) string                          { return s }
func (asItIs) Counts() map[string]int                        { return nil }

// TestGraphOfALaterRelease holds that what a kept flame graph has more is named, and left out of a redacted copy.
func TestGraphOfALaterRelease(t *testing.T) {
	dir := finished(t, 1)
	keeps(t, dir, graph("box"))
	root, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	m, err := readManifest(root)
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(dir, m.Traced[0].Path))
	if err != nil {
		t.Fatal(err)
	}
	src = members(`"author":"host7"`)(src)
	sum := sha256.Sum256(src)
	digest := hex.EncodeToString(sum[:])
	old := filepath.Join(dir, m.Traced[0].Path)
	m.Traced[0] = File{Path: TracedDir + "/flame-" + digest[:16] + ".json", Size: int64(len(src)), SHA256: digest}
	manifest, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(old), os.WriteFile(filepath.Join(dir, m.Traced[0].Path), src, 0o644),
		os.WriteFile(filepath.Join(dir, ManifestFile), manifest, 0o644)); err != nil {
		t.Fatal(err)
	}
	if r, found := verify(t, dir); !r.OK() || !slices.Equal(r.Unknown, []string{"author"}) {
		t.Errorf("unknown %q; %s", r.Unknown, found)
	}
	out := filepath.Join(t.TempDir(), "redacted")
	if err := Rewrite(dir, out, asItIs{}); err != nil {
		t.Fatal(err)
	}
	for name, text := range files(t, out) {
		if strings.Contains(strings.ToLower(text), "host7") {
			t.Errorf("%s still has it: %.200s", name, text)
		}
	}
}

// TestPlanOfALaterRelease holds that what an older tare cannot read is put down to the later one that wrote it.
func TestPlanOfALaterRelease(t *testing.T) {
	key := func(src []byte) []byte { return append(src, "moons: 3\n"...) }
	for version, want := range map[string]bool{"999.0.0": true, "0.0.1": false, "strange": false} {
		_, err := Open(later(t, version, map[string]func([]byte) []byte{PlanFile: key}))
		if err == nil || strings.Contains(err.Error(), "tare "+version+" wrote the bundle") != want {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// TestUnlistedFilesAreNotUnpacked holds that an archive with files that its manifest does not have ends at the first.
func TestUnlistedFilesAreNotUnpacked(t *testing.T) {
	dir := finished(t, 2)
	var entries []any
	for _, name := range []string{ManifestFile, EnvironmentsFile, PlanFile, TrialsFile} {
		src, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, tar.Header{Name: name}, string(src))
	}
	for i := range 3 {
		entries = append(entries, tar.Header{Name: EvidenceDir + "/more" + string(rune('a'+i))}, "")
	}
	out := t.TempDir()
	if err := Extract(archive(t, entries...), out); err == nil || !strings.Contains(err.Error(), "does not list") {
		t.Errorf("%v", err)
	}
	if found, _ := filepath.Glob(filepath.Join(out, EvidenceDir, "more*")); len(found) > 0 {
		t.Errorf("unpacked %q", found)
	}
	if _, err := Open(out); err != nil {
		t.Error(err)
	}
}
