//go:build portable || !linux || !(amd64 || arm64)

package developer

import (
	"os"
	"path/filepath"

	"tare/internal/measure/workload"
)

// walker walks a tree: a directory is listed to its end, then its subdirectories.
type walker struct{ counts }

func newWalker() *walker { return &walker{} }

// walk counts n and everything below.
func (w *walker) walk(_ *root, n name) error { return w.visit(n, false) }

// remove removes n and everything below.
func (w *walker) remove(_ *root, n name) error { return w.visit(n, true) }

func (w *walker) visit(path string, remove bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	w.dirs++
	list, err := f.ReadDir(-1)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	for _, d := range list {
		if d.IsDir() {
			continue
		}
		w.files++
		if remove {
			if err := os.Remove(filepath.Join(path, d.Name())); err != nil {
				return err
			}
		}
	}
	for _, d := range list {
		if d.IsDir() {
			if err := w.visit(filepath.Join(path, d.Name()), remove); err != nil {
				return err
			}
		}
	}
	if remove {
		return os.Remove(path)
	}
	return nil
}

// note records that the standard library does not show whether it called stat for an entry's type.
func (w *walker) note(b *workload.Bench) { b.Note("d_type", "not known here") }
