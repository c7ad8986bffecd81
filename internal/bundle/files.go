package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

func tmpName(name string) string { return "." + name + ".tmp" }

// replace writes a file beside the old one and renames it over it, so that a crash leaves one or the other.
func (w *Writer) replace(name string, data []byte) error {
	tmp := tmpName(name)
	f, err := w.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return explain(err)
	}
	write := writeSync
	if w.passing {
		write = writeOnly
	}
	if err := write(f, data); err != nil {
		w.root.Remove(tmp)
		return explain(err)
	}
	if err := w.root.Rename(tmp, name); err != nil {
		w.root.Remove(tmp)
		return explain(err)
	}
	if w.passing {
		return nil
	}
	return syncDir(w.root)
}

func writeOnly(f *os.File, data []byte) error {
	_, err := f.Write(data)
	return errors.Join(err, f.Close())
}

func writeSync(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// evidenceNames are the paths below the evidence folder in their order, also those that tare never gives.
func evidenceNames(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), EvidenceDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, EvidenceDir+"/"+e.Name())
	}
	return names, nil
}

// evidenceFiles are evidenceNames, all of which are files that a bundle has.
func evidenceFiles(root *os.Root) ([]string, error) {
	names, err := evidenceNames(root)
	for _, name := range names {
		if !validPath(name) {
			return nil, fmt.Errorf("%.60q is not a file of a bundle", name)
		}
	}
	return names, err
}

// fileNames are the paths of every file of the bundle but the manifest, in their order.
func fileNames(root *os.Root) ([]string, error) {
	names, err := evidenceNames(root)
	names = append(names, PlanFile, EnvironmentsFile, TrialsFile)
	slices.Sort(names)
	return names, err
}

// digests reads every file of the bundle but the manifest, as a stream, in the order of their paths.
func digests(root *os.Root) ([]File, error) {
	names, err := fileNames(root)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, name := range names {
		f, err := digest(root, name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func digest(root *os.Root, name string) (File, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", name, err)
	}
	return File{Path: name, Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

// DiskFull tells whether an error says that the disk, or what of it a user may have, is full.
func DiskFull(err error) bool { return diskFull(err) }

// explain adds what to do to the errors of a disk that cannot be written.
func explain(err error) error {
	return explainAs(err, "what was written before stays readable: free some space and continue with --resume",
		"what was written before stays readable")
}

// explainBegin is explain for a bundle in which nothing has been written yet.
func explainBegin(err error) error {
	return explainAs(err, "free some space, or choose another folder", "choose another one")
}

// explainAs adds one of two endings to an error that is not explained yet.
func explainAs(err error, full, readonly string) error {
	switch {
	case err == nil || strings.Contains(err.Error(), "what was written before"):
		return err
	case diskFull(err):
		return fmt.Errorf("%w: the disk is full; %s", err, full)
	case readOnly(err):
		return fmt.Errorf("%w: the folder cannot be written; %s", err, readonly)
	}
	return err
}
