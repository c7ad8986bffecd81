package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// given makes a root with a file below it and returns a bench as the agent makes one there, and what the file holds.
func given(t testing.TB, size int) (root string, b *workload.Bench, content []byte) {
	t.Helper()
	root = t.TempDir()
	content = make([]byte, size)
	fileio.FillRandom(content, 1)
	b = &workload.Bench{Root: root, Dir: filepath.Join(root, "tare-run-1", "cell"), Seed: 7}
	for _, dir := range []string{b.Dir, filepath.Join(root, "sub")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "sub", "data"), content, 0o400); err != nil {
		t.Fatal(err)
	}
	return root, b, content
}

// TestGivenFileIsReadAndLeftAsItIs reads one by every engine and holds the evidence against the file's own bytes.
func TestGivenFileIsReadAndLeftAsItIs(t *testing.T) {
	const bs = 256 << 10
	root, b, content := given(t, 2*bs+777)
	if err := os.Symlink("sub/data", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content[:2*bs]) // with two records the sample is the whole file
	for _, c := range []map[string]string{
		{"file": "sub/data"},
		{"file": "link"},
		{"file": "sub/data", "size": "512KiB"},
		{"file": "sub/data", "engine": "mmap"},
		{"file": "sub/data", "engine": "auto", "qd": "2"},
		{"file": "sub/data", "threads": "2", "latency": "yes"},
	} {
		for _, kind := range []string{"fs.seqread", "fs.randread"} {
			c["bs"] = "256KiB"
			b := &workload.Bench{Root: root, Dir: b.Dir, Seed: b.Seed, Work: 10}
			if err := drive(trial(t, kind, c), b); err != nil {
				t.Errorf("%s %v: %v", kind, c, err)
				continue
			}
			if b.Checks["file_bytes"] != "524288" || b.Checks["data"] != hex.EncodeToString(sum[:16]) {
				t.Errorf("%s %v: checks %v, want the digest %x", kind, c, b.Checks, sum[:16])
			}
			if !strings.HasPrefix(b.State["verified"], "no: ") || b.State["prepared"] != "given" ||
				!(b.Metrics["mib_per_second"] > 0) {
				t.Errorf("%s %v: state %v, metrics %v", kind, c, b.State, b.Metrics)
			}
		}
	}
	after, err := os.ReadFile(filepath.Join(root, "sub", "data"))
	if err != nil || !bytes.Equal(after, content) {
		t.Errorf("the file is not what it was: %v", err)
	}
	if left, err := os.ReadDir(b.Dir); err != nil || len(left) > 0 {
		t.Errorf("a trial that only reads left %v behind, %v", left, err)
	}
	k := kind(t, "fs.seqread")
	p, err := k.Resolve(map[string]string{"file": "sub/data"})
	if err != nil {
		t.Fatal(err)
	}
	if n := k.Space(p); n != 0 {
		t.Errorf("a trial that only reads is said to need %d bytes", n)
	}
}

// TestGivenFileThatCannotBeReadIsRefused: each refusal names the file and what is wrong with it.
func TestGivenFileThatCannotBeReadIsRefused(t *testing.T) {
	root, b, _ := given(t, 64<<10)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"out": filepath.Join(outside, "secret"),
		"up": "../" + filepath.Base(outside) + "/secret", "nowhere": "gone", "circle": "circle"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		file, want string
		more       []string
	}{
		{"gone", "no such file", nil},
		{"sub", "is a directory", nil},
		{"nowhere", "no such file", nil},
		{"out", "escapes", nil},
		{"up", "escapes", nil},
		{"circle", "open it in", nil},
		{"sub/data", "less than one record", []string{"bs", "128KiB"}},
		{"sub/data", "leave out size=", []string{"size", "32KiB"}},
		{"sub/data", "leave out size=", []string{"size", "128KiB"}},
		{"sub/data", "too few for threads=32 and qd=1", []string{"threads", "32"}},
	} {
		params := map[string]string{"file": c.file}
		for i := 0; i < len(c.more); i += 2 {
			params[c.more[i]] = c.more[i+1]
		}
		err := drive(trial(t, "fs.randread", params), &workload.Bench{Root: root, Dir: b.Dir, Work: 1})
		f, ok := errors.AsType[*record.Failure](err)
		if !ok || f.Kind != "refused" || !strings.Contains(f.Message, c.want) ||
			!strings.Contains(f.Message, "file="+c.file) {
			t.Errorf("%v gives %v, want a refusal with %q", params, err, c.want)
		}
	}
}

// TestGivenFileAndWhatItExcludes is refused before anything runs.
func TestGivenFileAndWhatItExcludes(t *testing.T) {
	k := kind(t, "fs.randread")
	for _, c := range []struct {
		name, value, want string
	}{
		{"file", "/etc/passwd", "must be a relative path"},
		{"file", "../x", "stays below"},
		{"file", "a/../../x", "stays below"},
		{"files", "own", "leave out files=own"},
		{"data", "zero", "writes nothing"},
	} {
		given := map[string]string{"file": "x", c.name: c.value}
		p, err := k.Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.New(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v gives %v, want %q", given, err, c.want)
		}
	}
	for _, other := range []string{"fs.seqwrite", "fs.randwrite", "fs.mixed"} {
		if _, err := kind(t, other).Resolve(map[string]string{"file": "x"}); err == nil {
			t.Errorf("%s, which writes, takes file=", other)
		}
	}
}

// TestGivenFileThatChangesIsFound: what was read is not what the file holds when it is looked at again.
func TestGivenFileThatChangesIsFound(t *testing.T) {
	root, b, _ := given(t, 64<<10)
	b.Work = 16
	w := trial(t, "fs.seqread", map[string]string{"file": "sub/data", "bs": "64KiB"})
	defer w.Cleanup(b)
	if err := w.Setup(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if err := w.Measure(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	b.Elapsed = time.Second
	path := filepath.Join(root, "sub", "data")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.(workload.Reporter).Report(b); err == nil || !strings.Contains(err.Error(),
		"differs when it is read again") {
		t.Errorf("a file that changed gives %v", err)
	}
}
