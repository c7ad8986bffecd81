package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/record"
)

// Secrets are names that redaction cannot know from the bundle alone.
type Secrets struct {
	Hosts []string // host names, such as that of the machine that packs
	Users []string // user names
	Words []string // anything else that must not be seen: project names, customers
}

// Redact writes a copy of the bundle in dir to the new folder out, in which the names of hosts and users, paths that not
// every system has, IP and MAC addresses, UUIDs, serial numbers and machine ids are replaced by pseudonyms, the same one
// for the same thing in every file. The chain of trials and the digests are made anew, so that the copy verifies, and its
// manifest says that it was redacted. Figures, checks of equal work and the run id stay as they are.
//
// It finds what has a form (an address, a path, USER@HOST) or a place (the host name among the facts, a driver's settings),
// and what s names. It cannot know that a word in a command's output is somebody's name: look the copy through before giving it away.
func Redact(dir, out string, s Secrets) error {
	if err := redact(dir, out, s); err != nil {
		return fmt.Errorf("redact bundle %s: %w", dir, err)
	}
	return nil
}

func redact(dir, out string, s Secrets) error {
	if _, err := os.Lstat(out); err == nil {
		return fmt.Errorf("%s is there already; choose another folder", out)
	}
	if err := sound(dir); err != nil {
		return err
	}
	b, err := Open(dir)
	if err != nil {
		return err
	}
	from, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	tmp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(out)), ".tare-redact-*")
	if err != nil {
		return beside(out, err)
	}
	defer os.RemoveAll(tmp)
	to, err := os.OpenRoot(tmp)
	if err != nil {
		return err
	}
	defer to.Close()
	r := &redaction{bundle: b, from: from, to: to, mask: newMask()}
	if err := r.run(s); err != nil {
		return err
	}
	if err := sound(tmp); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, out)
}

// redaction is the making of one copy.
type redaction struct {
	bundle   *Bundle
	from, to *os.Root
	mask     *mask
}

// run reads everything twice: a name that is known from the last file must be replaced in the first.
func (r *redaction) run(s Secrets) error {
	for _, h := range s.Hosts {
		r.mask.host(h)
	}
	for _, u := range s.Users {
		r.mask.user(u)
	}
	for _, w := range s.Words {
		r.mask.word(w)
	}
	if err := r.learn(); err != nil {
		return err
	}
	r.mask.seal()
	return r.rewrite()
}

func (r *redaction) learn() error {
	r.mask.learnPlan(r.bundle.Plan)
	for i := range r.bundle.Environments {
		r.mask.learnEnvironment(&r.bundle.Environments[i])
	}
	names, err := evidenceFiles(r.from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.lines(name, func(line []byte) error { r.mask.learn(string(line)); return nil }); err != nil {
			return err
		}
	}
	for t, err := range r.bundle.Trials() {
		if err != nil {
			return err
		}
		t.Metrics, t.Samples = nil, nil
		r.mask.learnValue(reflect.ValueOf(t).Elem())
	}
	return nil
}

// lines calls do for each line of a file, with its newline; longer ones than any tare writes come in pieces.
func (r *redaction) lines(name string, do func([]byte) error) error {
	f, err := openRegular(r.from, name)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, MaxLine)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(line) > 0 {
			if err := do(line); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

func (r *redaction) rewrite() error {
	m := r.bundle.Manifest
	w := &Writer{root: r.to, manifest: m, chain: genesis(m.RunID)}
	p := r.bundle.Plan
	maskPlan(p, r.mask)
	if err := w.Plan(p); err != nil {
		return fmt.Errorf("%w; rename what a replaced name stands in, and pack again", err)
	}
	for i := range r.bundle.Environments {
		r.maskEnvironment(&r.bundle.Environments[i])
	}
	if err := w.Environments(r.bundle.Environments); err != nil {
		return err
	}
	if err := r.rewriteTrials(w); err != nil {
		return err
	}
	if err := r.rewriteEvidence(); err != nil {
		return err
	}
	w.manifest.Redacted = r.mask.counts()
	if len(w.manifest.Redacted) == 0 {
		w.manifest.Redacted = map[string]int{"nothing found": 0}
	}
	if m.State == Running { // a killed run has no digests
		return w.writeManifest()
	}
	files, err := digests(r.to)
	if err != nil {
		return err
	}
	w.manifest.Files, w.manifest.Trials, w.manifest.Head = files, w.seq, w.chain
	return w.writeManifest()
}

// maskPlan replaces what a person wrote into the plan, and leaves the names of drivers and workloads.
func maskPlan(p *plan.Plan, m *mask) {
	p.Name, p.Question, p.Baseline = m.text(p.Name), m.text(p.Question), m.text(p.Baseline)
	for i := range p.Environments {
		e := &p.Environments[i]
		maskSpec(&e.Spec, m)
		e.Name, e.From, e.Text = m.text(e.Name), m.text(e.From), e.Spec.String()
		e.Of, e.Against = m.text(e.Of), m.text(e.Against)
	}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		w.Label = m.text(w.Label)
		for k, v := range w.Params {
			w.Params[k] = m.text(v)
		}
		m.value(reflect.ValueOf(w.Targets))
		work := map[string]int64{}
		for target, n := range w.Work {
			work[m.text(target)] = n
		}
		if w.Work != nil {
			w.Work = work
		}
	}
}

// maskEnvironment takes the spec apart first: in its text, names stand next to %XX escapes.
func (r *redaction) maskEnvironment(e *record.Environment) {
	text := e.Spec
	r.mask.value(reflect.ValueOf(e).Elem())
	e.Inside.Hostname, e.Outside.Hostname = r.mask.hostname(e.Inside.Hostname), r.mask.hostname(e.Outside.Hostname)
	if s, err := env.ParseSpec("x=" + text); err == nil {
		maskSpec(&s, r.mask)
		e.Spec = s.String()
	}
}

func maskSpec(s *env.Spec, m *mask) {
	s.Name, s.Arg = m.text(s.Name), m.text(s.Arg)
	for k, v := range s.Settings { // whose names the driver gave
		s.Settings[k] = m.text(v)
	}
}

func (r *redaction) rewriteTrials(w *Writer) error {
	in, err := openRegular(r.from, TrialsFile)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := r.to.OpenFile(TrialsFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<20)
	err = r.copyTrials(newScanner(in, w.manifest.RunID), w, out)
	return errors.Join(err, out.Flush(), f.Close())
}

func (r *redaction) copyTrials(s *scanner, w *Writer, out io.Writer) error {
	for {
		t, err := s.next()
		if _, torn := errors.AsType[*tornError](err); torn || err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		r.maskTrial(t)
		line, chain, err := encode(t, w.chain)
		if err != nil {
			return err
		}
		w.chain, w.seq = chain, t.Seq
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
}

// maskTrial leaves the names of metrics alone, which the code of the workloads gives.
func (r *redaction) maskTrial(t *record.Trial) {
	metrics, samples := t.Metrics, t.Samples
	t.Metrics, t.Samples = nil, nil
	r.mask.value(reflect.ValueOf(t).Elem())
	t.Metrics, t.Samples = metrics, samples
}

func (r *redaction) rewriteEvidence() error {
	names, err := evidenceFiles(r.from)
	if err != nil {
		return err
	}
	if err := r.to.Mkdir(EvidenceDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range names {
		f, err := r.to.OpenFile(EvidenceDir+"/"+EvidenceName(r.mask.text(path.Base(name))), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(f)
		err = r.lines(name, func(line []byte) error {
			_, err := io.WriteString(out, r.mask.text(string(line)))
			return err
		})
		if err := errors.Join(err, out.Flush(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// value replaces in every string that v holds, keys of maps included. v is settable where it is not a map or a slice.
func (m *mask) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(m.text(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			m.value(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Field(i).CanSet() {
				m.value(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			m.value(v.Index(i))
		}
	case reflect.Map:
		m.maskMap(v)
	}
}

func (m *mask) maskMap(v reflect.Value) {
	if v.IsNil() || v.Type().Key().Kind() != reflect.String || v.Type().Elem().Kind() != reflect.String {
		return
	}
	type pair struct{ key, value string }
	var pairs []pair
	for it := v.MapRange(); it.Next(); {
		pairs = append(pairs, pair{it.Key().String(), it.Value().String()})
	}
	v.Clear()
	// In a fixed order, so that the same bundle gives the same pseudonyms.
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	for _, p := range pairs {
		v.SetMapIndex(reflect.ValueOf(m.text(p.key)).Convert(v.Type().Key()), reflect.ValueOf(m.text(p.value)).Convert(v.Type().Elem()))
	}
}

// known tells by the name of a fact that its value identifies a machine.
func known(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"serial", "machine_id", "machine-id", "uuid", "wwn", "boot_id", "asset_tag"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
