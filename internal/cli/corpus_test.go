package cli

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mikelolasagasti/xz"

	"tare/internal/judge/hyperfine"
	"tare/internal/run/inventory"
	"tare/internal/sys/benchfmt"
	"tare/internal/sys/sbatch"
)

// corpusVariable names folders of files that other programs wrote, separated like those of PATH.
const corpusVariable = "TARE_CORPUS"

// mostOfCorpus is how long a file of a corpus may be: what is longer is passed over.
const mostOfCorpus = 64 << 20

// hang is when a reader has surely stopped: a file of mostOfCorpus is read within seconds.
const hang = 3 * time.Minute

// TestCorpus gives every file of some folders to every reader of foreign files, whatever the file is, and holds what
// must be true of any of them: nobody crashes or hangs, an error is one, bytes add up, times are the file's own, and a
// second reader agrees where there is one. The folders are what TARE_CORPUS names, the samples of other programs that
// scripts/deps.sh fetches, and the testdata of tare's own readers.
func TestCorpus(t *testing.T) {
	dirs := []string{"../sys", "../lab", "../measure/workload/command"}
	if testing.Short() {
		dirs = dirs[1:] // takes long under the race detector
	}
	for _, variable := range []string{corpusVariable, "TARE_SQL_LOGS", "TARE_QEMU_SAMPLES",
		"TARE_BLKID_SAMPLES"} {
		if !testing.Short() || variable == corpusVariable {
			dirs = append(dirs, filepath.SplitList(os.Getenv(variable))...)
		}
	}
	files := 0
	for _, dir := range dirs {
		own := strings.HasPrefix(dir, "..")
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || own && !strings.Contains(path, "testdata") {
				return err
			}
			if info, err := d.Info(); err != nil || info.Size() > mostOfCorpus {
				return err
			}
			files++
			t.Run(path, func(t *testing.T) {
				t.Parallel()
				readByAll(t, path)
			})
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	least := 20
	if testing.Short() {
		least = 8
	}
	if files < least {
		t.Errorf("found %d files only in %s", files, dirs)
	}
}

func readByAll(t *testing.T, path string) {
	path, src := decompressed(t, path)
	for _, r := range []struct {
		name string
		read func(t *testing.T, path string, src []byte)
	}{
		{"sql log", readsSQLLog}, {"access log", readsAccessLog}, {"disk", readsDisk}, {"inventory", readsInventory},
		{"sbatch", readsBatch}, {"suite", readsSuite}, {"hyperfine", readsHyperfine}, {"plan", readsPlan},
		{"bundle", readsBundle},
	} {
		done := make(chan struct{})
		go func() {
			select {
			case <-done:
			case <-time.After(hang):
				panic(fmt.Sprintf("the reader of a %s hangs at %s", r.name, path))
			}
		}()
		r.read(t, path, src)
		close(done)
	}
}

// decompressed is the file itself or, if it is compressed, a file in its place that is not.
func decompressed(t *testing.T, path string) (string, []byte) {
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r io.Reader
	switch filepath.Ext(path) {
	case ".bz2":
		r = bzip2.NewReader(bytes.NewReader(src))
	case ".gz":
		if r, err = gzip.NewReader(bytes.NewReader(src)); err != nil {
			return path, src
		}
	case ".xz":
		if r, err = xz.NewReader(bytes.NewReader(src), 0); err != nil {
			return path, src
		}
	default:
		return path, src
	}
	plain := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	if src, err = io.ReadAll(io.LimitReader(r, mostOfCorpus)); err != nil {
		return path, src
	}
	if err := os.WriteFile(plain, src, 0o644); err != nil {
		t.Fatal(err)
	}
	return plain, src
}

// inspect runs a command on a file as a user does. ok tells that it could read the file.
func inspect(t *testing.T, path string, words ...string) (out string, ok bool) {
	t.Helper()
	code, out, said := typed("", append(words, path)...)
	switch {
	case code != exitOK && code != exitFailed && code != exitUsage:
		t.Errorf("tare %s: exit code %d", strings.Join(words, " "), code)
	case code != exitOK && strings.TrimSpace(said) == "":
		t.Errorf("tare %s: exit code %d without a word", strings.Join(words, " "), code)
	}
	if strings.ContainsFunc(out+said, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
		t.Errorf("tare %s prints control characters of the file", strings.Join(words, " "))
	}
	return out, code == exitOK
}

// parts is what an account says of bytes or of records.
type parts struct{ Total, Replayed, Skipped, Ambiguous, Lost int64 }

func (p parts) adds() bool { return p.Total == p.Replayed+p.Skipped+p.Ambiguous+p.Lost }

type inspected struct {
	Format  string
	Account struct {
		Bytes, Statements, Requests parts
		Reasons                     []struct {
			Part, Reason                string
			Bytes, Statements, Requests int64
		}
	}
	Time     struct{ First, Last time.Time }
	Sessions struct {
		Total    int64
		MostOpen int64 `json:"most_open"`
	}
	Timeline []struct{ Statements, Requests int64 }
}

// check holds what is true of the inspection of any log.
func (l *inspected) check(t *testing.T, src []byte) {
	t.Helper()
	records, a := l.Account.Statements, l.Account
	if a.Requests.Total > 0 {
		records = a.Requests
	}
	if !a.Bytes.adds() || !records.adds() {
		t.Errorf("%s: the parts of %+v or %+v do not add up", l.Format, a.Bytes, records)
	}
	if a.Bytes.Total != int64(len(src)) {
		t.Errorf("%s: the account is of %d bytes, and the file has %d", l.Format, a.Bytes.Total, len(src))
	}
	for part, total := range map[string]parts{"skipped": {a.Bytes.Skipped, records.Skipped, 0, 0, 0},
		"ambiguous": {a.Bytes.Ambiguous, records.Ambiguous, 0, 0, 0}, "lost": {a.Bytes.Lost, records.Lost, 0, 0, 0}} {
		var size, number int64
		for _, r := range a.Reasons {
			if r.Part == part {
				size, number = size+r.Bytes, number+r.Statements+r.Requests
			}
		}
		if size != total.Total || number != total.Replayed {
			t.Errorf("%s: the reasons of what is %s are of %d bytes and %d records, and it has %d and %d", l.Format,
				part, size, number, total.Total, total.Replayed)
		}
	}
	if l.Sessions.MostOpen > l.Sessions.Total {
		t.Errorf("%s: %d sessions open at once, of %d", l.Format, l.Sessions.MostOpen, l.Sessions.Total)
	}
	var drawn int64
	for _, d := range l.Timeline {
		drawn += d.Statements + d.Requests
	}
	if drawn > records.Total {
		t.Errorf("%s: the timeline has %d records of %d", l.Format, drawn, records.Total)
	}
	if l.Time.First.After(l.Time.Last) {
		t.Errorf("%s: it begins at %s, after its end at %s", l.Format, l.Time.First, l.Time.Last)
	}
	for _, at := range []time.Time{l.Time.First, l.Time.Last} {
		if !at.IsZero() && !strings.Contains(l.Format, "syslog") && !hasTime(src, at) {
			t.Errorf("%s: the time %s is none of the file", l.Format, at)
		}
	}
}

// hasTime tells that a file has the year of a time in one of the usual ways, a day before or after it for its zone.
func hasTime(src []byte, at time.Time) bool {
	for _, near := range []time.Time{at, at.AddDate(0, 0, 1), at.AddDate(0, 0, -1)} {
		for _, form := range []string{"2006", "060102", "01/02/06", "02.01.06"} {
			if bytes.Contains(src, []byte(near.Format(form))) {
				return true
			}
		}
	}
	return bytes.Contains(src, []byte(strconv.FormatInt(at.Unix(), 10)))
}

func readsSQLLog(t *testing.T, path string, src []byte) {
	for _, dialect := range []string{"mysql", "postgresql"} {
		readsLog(t, path, src, "sql", "inspect", "--format", "json", "--dialect", dialect)
	}
}

func readsAccessLog(t *testing.T, path string, src []byte) {
	readsLog(t, path, src, "http", "inspect", "--format", "json")
}

func readsLog(t *testing.T, path string, src []byte, words ...string) {
	t.Helper()
	out, ok := inspect(t, path, words...)
	if !ok || filepath.Ext(path) == ".gz" { // what is compressed is longer than the file
		return
	}
	l := &inspected{}
	if err := json.Unmarshal([]byte(out), l); err != nil {
		t.Fatalf("tare %s: %v", strings.Join(words, " "), err)
	}
	l.check(t, src)
}

// readsDisk holds an image against qemu-img, where that knows its format by more than its length.
func readsDisk(t *testing.T, path string, src []byte) {
	out, ok := inspect(t, path, "disk", "inspect", "--format", "json")
	if !ok {
		return
	}
	var disk struct {
		Virtual int64 `json:"virtual_bytes"`
		Layers  []struct {
			Format string
			File   int64 `json:"file_bytes"`
		}
		Space map[string]any
	}
	if err := json.Unmarshal([]byte(out), &disk); err != nil || len(disk.Layers) == 0 {
		t.Fatalf("tare disk inspect: %v in %s", err, out)
	}
	if disk.Layers[0].File != int64(len(src)) {
		t.Errorf("the image has %d bytes and not %d", disk.Layers[0].File, len(src))
	}
	told, err := exec.CommandContext(t.Context(), "qemu-img", "info", "-U", "--output=json", path).Output()
	var theirs struct {
		Format string
		Size   int64 `json:"virtual-size"`
	}
	if err != nil || json.Unmarshal(told, &theirs) != nil || theirs.Format == "raw" {
		return
	}
	ours := map[string]string{"vhd": "vpc"}[disk.Layers[0].Format]
	if ours == "" {
		ours = disk.Layers[0].Format
	}
	if ours != theirs.Format {
		t.Logf("tare says %s, qemu-img %s", ours, theirs.Format) // cloop, dmg: formats that tare has no word for
	} else if disk.Virtual != theirs.Size {
		t.Errorf("a disk of %d bytes, and qemu-img says %d", disk.Virtual, theirs.Size)
	}
}

// readsInventory holds that there are hosts or an error. ansible-inventory is not asked: it would run the file.
func readsInventory(t *testing.T, path string, src []byte) {
	for _, yaml := range []bool{false, true} {
		hosts, err := inventory.Parse(src, yaml, "")
		if err != nil && len(hosts) > 0 {
			t.Errorf("inventory: %d hosts beside the error %v", len(hosts), err)
		}
	}
	if _, err := inventory.ParseJSON(src, ""); err != nil && err.Error() == "" {
		t.Error("inventory: an empty error")
	}
}

func readsBatch(t *testing.T, path string, src []byte) {
	args, err := sbatch.Lines(src)
	if err == nil && len(args) > 0 && !bytes.Contains(src, []byte("#SBATCH")) {
		t.Errorf("sbatch: %q of a file without a directive", args)
	}
}

// readsSuite holds that figures are ones that can be compared, whatever the file is.
func readsSuite(t *testing.T, path string, src []byte) {
	if len(src) > benchfmt.MaxBytes {
		return
	}
	for _, f := range benchfmt.Formats() {
		suite, err := f.Parse(src)
		if err != nil {
			continue
		}
		seen := map[string]bool{}
		for _, c := range suite.Cases {
			if seen[c.Name] {
				t.Errorf("suite %s: the case %q is there twice", f.Name, c.Name)
			}
			seen[c.Name] = true
			for _, figure := range c.Figures {
				if !(figure.Value > 0) || math.IsInf(figure.Value, 0) {
					t.Errorf("suite %s: %s has the figure %v", f.Name, c.Name, figure)
				}
			}
		}
	}
}

func readsHyperfine(t *testing.T, path string, src []byte) {
	all, err := hyperfine.Read(bytes.NewReader(src))
	if err != nil {
		return
	}
	var theirs struct{ Results []json.RawMessage }
	if err := json.Unmarshal(src, &theirs); err != nil || len(theirs.Results) != len(all) {
		t.Errorf("hyperfine: %d results of %d (%v)", len(all), len(theirs.Results), err)
	}
	out, _ := inspect(t, path, "ab", "--import")
	if strings.Contains(out, "NaN") || strings.Contains(out, "Inf") {
		t.Errorf("hyperfine: a figure that is no number in %s", out)
	}
}

func readsPlan(t *testing.T, path string, _ []byte) { inspect(t, path, "plan", "check") }

func readsBundle(t *testing.T, path string, _ []byte) {
	inspect(t, path, "verify")
	inspect(t, path, "report")
}
