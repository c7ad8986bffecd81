package bundle

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Ext is the suffix of a packed bundle: one zstd-compressed tar with the files of the folder and nothing else.
const Ext = ".tare"

// ErrDamaged is returned for a bundle or an archive whose content is not what tare wrote. What can be read may still
// be.
var ErrDamaged = errors.New("it was changed after tare wrote it")

// Pack writes the bundle in dir as the archive file out, which must not exist yet. The bundle is verified first, and
// one that is in use by another tare is refused with ErrLocked. The same bundle gives the same bytes.
func Pack(dir, out string) error {
	if err := pack(dir, out); err != nil {
		return fmt.Errorf("pack bundle %s: %w", dir, err)
	}
	return nil
}

// PackTo writes what Pack writes to w.
func PackTo(w io.Writer, dir string) error {
	if err := packing(dir, func(write func(io.Writer) error) error { return write(w) }); err != nil {
		return fmt.Errorf("pack bundle %s: %w", dir, err)
	}
	return nil
}

func pack(dir, out string) error {
	if _, err := os.Lstat(out); err == nil {
		return fmt.Errorf("%s already exists; choose another name", out)
	}
	return packing(dir, func(write func(io.Writer) error) error { return createFile(out, write) })
}

// packing verifies a bundle under its writer's lock and gives into what writes its archive.
func packing(dir string, into func(write func(io.Writer) error) error) error {
	root, err := openFolder(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	m, err := readManifest(root)
	if err != nil {
		return err
	}
	trials, err := openRegular(root, TrialsFile)
	if err != nil {
		return err
	}
	defer trials.Close()
	// Under the writer's lock, so that nothing is appended between the check and the end.
	if err := lockFile(trials); err != nil {
		return err
	}
	if err := sound(dir); err != nil {
		return err
	}
	if m, err = readManifest(root); err != nil { // it may have ended meanwhile
		return err
	}
	return into(func(w io.Writer) error { return writeArchive(w, root, m) })
}

// Lock takes the lock of a file that one process at a time may work by, without waiting: ErrLocked if another has it.
// Closing the file gives it back.
func Lock(f *os.File) error { return lockFile(f) }

// sound is Verify as a yes or no.
func sound(dir string) error {
	_, err := verified(dir)
	return err
}

// verified is Verify with an error for what is not as tare wrote it.
func verified(dir string) (*Report, error) {
	r, err := Verify(dir)
	if err != nil {
		return nil, err
	}
	if !r.OK() {
		return nil, fmt.Errorf("%w: %s; `tare verify` tells more", ErrDamaged, first(r.Problems))
	}
	return r, nil
}

// first tells how many problems there are, and the first of them.
func first(problems []Problem) string {
	if len(problems) == 1 {
		return problems[0].String()
	}
	return fmt.Sprintf("%d problems, the first: %s", len(problems), problems[0])
}

// createFile makes a file that was not there, whole or not at all.
func createFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".tare-pack-*")
	if err != nil {
		return beside(name, err)
	}
	defer os.Remove(f.Name())
	err = write(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, never replaces what somebody else put there meanwhile.
	err = os.Link(f.Name(), name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s already exists; choose another name", name)
	}
	return os.Rename(f.Name(), name) // the file system knows no hard links
}

// beside is the error of making something next to what is to become name, said of name: the user knows no other.
func beside(name string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return fmt.Errorf("make %s: %w", name, err)
}

// encoders are compressors that were used before: a new one clears more memory than most bundles have.
var encoders sync.Pool

// writeArchive writes the manifest first, so that a reader knows the version before anything else, and the trials
// before the evidence, so that an archive that was cut short still has what matters.
func writeArchive(w io.Writer, root *os.Root, m *Manifest) error {
	z, _ := encoders.Get().(*zstd.Encoder)
	if z == nil {
		var err error
		z, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
	}
	z.Reset(w)
	defer encoders.Put(z)
	t := tar.NewWriter(z)
	names := []string{ManifestFile, PlanFile, EnvironmentsFile, TrialsFile}
	evidence, err := evidenceFiles(root)
	if err != nil {
		return err
	}
	names = append(names, evidence...)
	for _, f := range m.Traced {
		names = append(names, f.Path)
	}
	for _, name := range names {
		if err := addFile(t, z, root, name, m); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// flushEvery is how much of a file is compressed together. What comes before the block in which an archive was cut
// short can be read.
const flushEvery = 32 << 10

func addFile(t *tar.Writer, z *zstd.Encoder, root *os.Root, name string, m *Manifest) error {
	f, err := openRegular(root, name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// Owner and time of the files are the packer's business, and would make each archive of a bundle another one.
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o644, ModTime: m.Created}
	if err := t.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for left := info.Size(); left > 0; left -= flushEvery {
		if _, err := io.CopyN(t, f, min(left, flushEvery)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := z.Flush(); err != nil {
			return err
		}
	}
	return nil
}
