package bundle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"tare/internal/record"
)

// Problem is something in a bundle that is not as tare wrote it.
type Problem struct {
	File string // below the bundle
	Line int    // of trials.ndjson; 0 elsewhere
	Text string
}

func (p Problem) String() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s line %d: %s", p.File, p.Line, p.Text)
	}
	if strings.HasPrefix(p.Text, p.File+" ") {
		return p.Text
	}
	return p.File + ": " + p.Text
}

// Report is the outcome of Verify.
type Report struct {
	State    State
	Trials   int   // whole, chained trials from the beginning
	Torn     int64 // bytes of a last line cut short by a crash: expected of a killed run, and no problem
	Problems []Problem
	// Unknown are fields that this tare does not know, as a later release may have added, by dotted name in order: at
	// most mostUnknown of them. They are no problem.
	Unknown []string
}

// OK tells whether nothing was found.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// mostUnknown bounds how many fields that are not known are named.
const mostUnknown = 20

// maxProblems bounds a report on a bundle that is wrong everywhere.
const maxProblems = 100

func (r *Report) add(file string, line int, format string, args ...any) {
	p := Problem{file, line, fmt.Sprintf(format, args...)}
	// What is missing is missed by more than one of the checks.
	if len(r.Problems) < maxProblems && !slices.Contains(r.Problems, p) {
		r.Problems = append(r.Problems, p)
	}
}

// Verify checks a bundle against itself: its form, the chain of its trials, their sequence, the names they refer to
// and, when the run has ended, the digest of every file. It changes nothing. An error means that there is no bundle to
// check.
func Verify(dir string) (*Report, error) {
	root, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("verify bundle %s: %w", dir, err)
	}
	defer root.Close()
	m, err := readManifest(root)
	if err != nil {
		return nil, fmt.Errorf("verify bundle %s: %w", dir, err)
	}
	r := &Report{State: m.State}
	if src, err := readFile(root, ManifestFile, maxManifest); err == nil {
		r.decode(ManifestFile, 0, src, &Manifest{})
	}
	b, err := open(root)
	if err != nil {
		what := "plan and environments"
		if missing, ok := errors.AsType[missingError](err); ok {
			what = string(missing)
		}
		r.add(what, 0, "%v", err)
		b = &Bundle{Manifest: *m}
	}
	r.environments(root)
	r.trials(root, b)
	r.traced(root, m)
	if m.State == Running {
		if len(m.Files) > 0 {
			r.add(ManifestFile, 0, "the run has not ended, but there are digests")
		}
		return r, nil
	}
	r.files(root, m)
	return r, nil
}

// decode reads JSON into v, a pointer, and keeps the names of the members that v has no field for. Nothing may follow
// the value.
func (r *Report) decode(file string, line int, src []byte, v any) {
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, err := d.Token(); err != io.EOF {
			r.add(file, line, "there is more after the value")
		}
		return
	}
	if err := json.Unmarshal(src, v); err != nil { // it has more wrong than a field
		r.add(file, line, "%v", err)
		return
	}
	var value any
	if json.Unmarshal(src, &value) == nil {
		r.unknown("", value, reflect.TypeOf(v))
	}
}

// unknown adds the dotted names of the members of a JSON value that a type has no field for.
func (r *Report) unknown(at string, value any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
				r.unknown(at, v, t.Elem())
			}
		}
	case map[string]any:
		if t.Kind() == reflect.Map {
			for _, v := range value {
				r.unknown(at, v, t.Elem())
			}
		}
		if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return
		}
		fields := map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields[strings.ToLower(cmp.Or(name, f.Name))] = f.Type
		}
		for name, v := range value {
			dotted := strings.TrimPrefix(at+"."+name, ".")
			if field, ok := fields[strings.ToLower(name)]; ok { // as encoding/json, which knows no case
				r.unknown(dotted, v, field)
			} else if i, found := slices.BinarySearch(r.Unknown, dotted); !found && len(r.Unknown) < mostUnknown {
				r.Unknown = slices.Insert(r.Unknown, i, dotted)
			}
		}
	}
}

func (r *Report) environments(root *os.Root) {
	src, err := readFile(root, EnvironmentsFile, maxEnvironments)
	if err != nil {
		r.add(EnvironmentsFile, 0, "%v", err)
		return
	}
	var list []record.Environment
	r.decode(EnvironmentsFile, 0, src, &list)
}

func (r *Report) trials(root *os.Root, b *Bundle) {
	f, err := openRegular(root, TrialsFile)
	if err != nil {
		r.add(TrialsFile, 0, "%v", err)
		return
	}
	defer f.Close()
	s := newScanner(f, b.Manifest.RunID)
	blocks := map[string]int{}
	for {
		t, err := s.next()
		if err == io.EOF {
			break
		}
		if torn, ok := errors.AsType[*tornError](err); ok {
			r.Torn = torn.bytes
			if b.Manifest.State != Running {
				r.add(TrialsFile, s.lines+1, "%v", err)
			}
			break
		}
		if err != nil {
			r.add(TrialsFile, 0, "%v; the %d lines before are in order", err, s.lines)
			return
		}
		r.trial(s, t, b, blocks)
	}
	r.Trials = s.lines
	if err := b.Manifest.complete(s); err != nil {
		r.add(TrialsFile, 0, "%v", err)
	}
}

// trial checks one line. blocks holds the last block seen of each workload.
func (r *Report) trial(s *scanner, t *record.Trial, b *Bundle, blocks map[string]int) {
	r.Trials = s.lines
	if t.Seq != s.lines {
		r.add(TrialsFile, s.lines, "its sequence number is %d", t.Seq)
	}
	body, _, _ := split(s.buf[:len(s.buf)-1])
	r.decode(TrialsFile, s.lines, body, &record.Trial{})
	if b.Plan == nil {
		return
	}
	// The line that marks a block as discarded speaks of all its targets.
	marker := t.Target == "" && t.Discarded != ""
	if _, ok := b.Plan.Target(t.Target); !ok && !marker {
		r.add(TrialsFile, s.lines, "target %.60q is not in the plan", t.Target)
	}
	w, ok := b.Plan.Workload(t.Workload)
	switch {
	case !ok:
		r.add(TrialsFile, s.lines, "workload %.60q is not in the plan", t.Workload)
	case !marker && !w.On(t.Target):
		r.add(TrialsFile, s.lines, "the plan does not run workload %.60q in %.60q", t.Workload, t.Target)
	}
	// A block that was discarded, or cut short by the end of a run that went on later, is made up for by another, so
	// that there may be more than the plan has looks for; but their numbers have no gaps.
	if last := blocks[t.Workload]; t.Block < 0 || t.Block > last+1 {
		r.add(TrialsFile, s.lines, "block %d of workload %.60q comes after block %d", t.Block, t.Workload, last)
	} else {
		blocks[t.Workload] = max(last, t.Block)
	}
}

// files compares every file with its digest, and the list of digests with the files there are.
func (r *Report) files(root *os.Root, m *Manifest) {
	listed := map[string]bool{}
	for _, want := range m.Files {
		if !validPath(want.Path) || listed[want.Path] {
			r.add(ManifestFile, 0, "it lists %.60q, which is not a file of a bundle", want.Path)
			continue
		}
		listed[want.Path] = true
		got, err := digest(root, want.Path)
		switch {
		case err != nil:
			r.add(want.Path, 0, "%v", err)
		case got.Size != want.Size:
			r.add(want.Path, 0, "it has %d bytes; it had %d when the run ended", got.Size, want.Size)
		case got.SHA256 != want.SHA256:
			r.add(want.Path, 0, "its content has changed since the run ended")
		}
	}
	names, err := fileNames(root)
	if err != nil {
		r.add(EvidenceDir, 0, "%v", err)
	}
	for _, name := range names {
		if !listed[name] {
			r.add(name, 0, "it was not there when the run ended")
		}
	}
}
