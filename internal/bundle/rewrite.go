package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"

	"tare/internal/plan"
	"tare/internal/record"
)

// Editor changes what a copy of a bundle says.
type Editor interface {
	// Learn sees all of the bundle before the first change: what the last file says may change the first one. The
	// second argument yields each line of the evidence, with its newline.
	Learn(b *Bundle, evidence iter.Seq2[[]byte, error]) error
	Plan(p *plan.Plan)
	Environment(e *record.Environment)
	Trial(t *record.Trial)
	// Text changes a line of evidence, or the name of its file.
	Text(s string) string
	// Counts says how many changes of each kind were made, for the manifest.
	Counts() map[string]int
}

// Rewrite writes a copy of the bundle in dir to the new folder out, changed by e. The chain of trials and the digests
// are made anew, so that the copy verifies, and its manifest says that it was redacted. A damaged bundle is refused,
// because a new chain would hide the damage. The copy is for packing or reading it, so it is not synced.
func Rewrite(dir, out string, e Editor) error {
	if _, err := os.Lstat(out); err == nil {
		return fmt.Errorf("%s already exists; choose another folder", out)
	}
	checked, err := verified(dir)
	if err != nil {
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
	r := &rewriting{bundle: b, from: from, to: to, editor: e, unknown: len(checked.Unknown)}
	if err := r.run(); err != nil {
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

// rewriting is the making of one copy.
type rewriting struct {
	bundle   *Bundle
	from, to *os.Root
	editor   Editor
	unknown  int // fields that are left out, since nobody knows what names are in them
}

func (r *rewriting) run() error {
	names, err := evidenceFiles(r.from)
	if err != nil {
		return err
	}
	if err := r.editor.Learn(r.bundle, r.evidenceLines(names)); err != nil {
		return err
	}
	m := r.bundle.Manifest
	if m.Shard != nil {
		s := *m.Shard // its machine is a digest already, and still tells hosts apart
		s.Host = r.editor.Text(s.Host)
		m.Shard = &s
	}
	w := &Writer{root: r.to, manifest: m, chain: genesis(m.RunID), passing: true}
	r.editor.Plan(r.bundle.Plan)
	if err := w.Plan(r.bundle.Plan); err != nil {
		return fmt.Errorf("%w; rename the file whose name contains a replaced name, and pack again", err)
	}
	for i := range r.bundle.Environments {
		r.editor.Environment(&r.bundle.Environments[i])
	}
	if err := w.Environments(r.bundle.Environments); err != nil {
		return err
	}
	if err := r.trials(w); err != nil {
		return err
	}
	if err := r.evidence(names); err != nil {
		return err
	}
	if err := r.traced(&w.manifest); err != nil {
		return err
	}
	w.manifest.Redacted = r.editor.Counts()
	if r.unknown > 0 {
		counts := map[string]int{"fields that this tare does not know": r.unknown}
		maps.Copy(counts, w.manifest.Redacted)
		w.manifest.Redacted = counts
	}
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

func (r *rewriting) evidenceLines(names []string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, name := range names {
			for line, err := range r.lines(name) {
				if !yield(line, err) {
					return
				}
			}
		}
	}
}

// lines yields each line of a file, with its newline; lines longer than any that tare writes come in pieces. A line is
// good until the next one.
func (r *rewriting) lines(name string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		f, err := openRegular(r.from, name)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		in := bufio.NewReaderSize(f, MaxLine)
		for {
			line, err := in.ReadSlice('\n')
			if err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull) {
				yield(nil, fmt.Errorf("%s: %w", name, err))
				return
			}
			if len(line) > 0 && !yield(line, nil) || err == io.EOF {
				return
			}
		}
	}
}

func (r *rewriting) trials(w *Writer) error {
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

func (r *rewriting) copyTrials(s *scanner, w *Writer, out io.Writer) error {
	for {
		t, err := s.next()
		if _, torn := errors.AsType[*tornError](err); torn || err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		r.editor.Trial(t)
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

func (r *rewriting) evidence(names []string) error {
	if err := r.to.Mkdir(EvidenceDir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range names {
		file := EvidenceDir + "/" + EvidenceName(r.editor.Text(path.Base(name)))
		f, err := r.to.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(f)
		if err := errors.Join(r.rewriteLines(out, name), out.Flush(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (r *rewriting) rewriteLines(out *bufio.Writer, name string) error {
	for line, err := range r.lines(name) {
		if err != nil {
			return err
		}
		if _, err := out.WriteString(r.editor.Text(string(line))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
