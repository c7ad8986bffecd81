//go:build !(linux && (amd64 || arm64 || riscv64 || loong64 || ppc64le || s390x))

package fs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// pathTree works by absolute paths, made beforehand, through the standard library.
type pathTree struct {
	before, after []string
	page          *payload
	fsync         bool
}

func newTree(root string, n *names, page *payload, fsync bool) (tree, error) {
	files := len(n.text) / n.stride / 2
	t := &pathTree{before: make([]string, files), after: make([]string, files), page: page, fsync: fsync}
	for f := range files {
		t.before[f] = filepath.Join(root, filepath.FromSlash(n.created(f)))
		t.after[f] = filepath.Join(root, filepath.FromSlash(n.renamed(f)))
	}
	return t, nil
}

func (t *pathTree) close() error { return nil }

// enter does nothing: names are absolute.
func (t *pathTree) enter() (leave func(), err error) { return func() {}, nil }

func (t *pathTree) do(phase, f int) error {
	switch phase {
	case phaseCreate:
		return t.create(f)
	case phaseStat:
		_, err := os.Stat(t.before[f])
		return err
	case phaseRead:
		return t.read(f)
	case phaseRename:
		return os.Rename(t.before[f], t.after[f])
	default:
		return os.Remove(t.after[f])
	}
}

func (t *pathTree) create(f int) error {
	file, err := os.OpenFile(t.before[f], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(t.page.of(f))
	if err == nil && t.fsync {
		err = plainSync(file)
	}
	return errors.Join(err, file.Close())
}

func (t *pathTree) read(f int) error {
	file, err := os.Open(t.before[f])
	if err != nil {
		return err
	}
	n, err := file.Read(t.page.in)
	if err == nil || errors.Is(err, io.EOF) {
		err = t.page.check(f, n)
	}
	return errors.Join(err, file.Close())
}
