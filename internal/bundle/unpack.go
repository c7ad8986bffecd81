package bundle

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"tare/internal/plan"
)

// What unpacking may cost, whatever the archive says.
const (
	maxArchive = 8 << 30 // bytes of all files together
	maxEntries = 100_000
	// maxRatio bounds how much larger the files may be than the archive, once they are large at all. A chain digest in
	// each line is 32 bytes that no compressor shortens, so that real trials stay far below.
	maxRatio   = 500
	ratioAfter = 256 << 20
	maxWindow  = 64 << 20 // of the decompressor: its memory
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotArchive is returned for a file that is no packed bundle.
	ErrNotArchive = errors.New("not a packed bundle")
	// ErrTooLarge is returned for an archive that unpacks to more than the caller takes.
	ErrTooLarge = errors.New("it is too large")
)

// Unpack makes the folder dir out of the archive, verified, whole or not at all. dir must not exist yet. An archive
// that holds anything but the files of a bundle, or more than a bundle can be, is refused.
func Unpack(archive, dir string) error {
	if err := unpack(archive, dir); err != nil {
		return fmt.Errorf("unpack %s: %w", archive, err)
	}
	return nil
}

func unpack(archive, dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s already exists; choose another folder", dir)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(filepath.Clean(dir)), ".tare-unpack-*")
	if err != nil {
		return beside(dir, err)
	}
	defer os.RemoveAll(tmp)
	if err := extractFile(archive, tmp); err != nil {
		return err
	}
	if err := sound(tmp); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	// Renaming fails over a folder with something in it, should one have appeared meanwhile.
	return os.Rename(tmp, dir)
}

// Extract puts the files of the archive into dir, an empty folder of the caller's. Unlike Unpack it does not verify,
// and it leaves what it could read when the archive turns out to be damaged: Open then tells what that is worth.
func Extract(archive, dir string) error {
	if err := extractFile(archive, dir); err != nil {
		return fmt.Errorf("unpack %s: %w", archive, err)
	}
	return nil
}

// ExtractWithin is Extract for an archive of strangers: at most limit bytes of files come out of it, and a context that
// has ended ends it. What it writes is for a folder that is read once, so it is not synced.
func ExtractWithin(ctx context.Context, archive, dir string, limit int64) error {
	x := &extraction{limit: min(limit, maxArchive), passing: true, stop: ctx.Err}
	if err := x.from(archive, dir); err != nil {
		return fmt.Errorf("unpack %s: %w", archive, err)
	}
	return nil
}

func extractFile(archive, dir string) error {
	return (&extraction{limit: maxArchive}).from(archive, dir)
}

// from reads an archive into a folder.
func (x *extraction) from(archive, dir string) error {
	info, err := os.Stat(archive)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: not a regular file", ErrNotArchive)
	}
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	x.root, x.in, x.seen = root, &counter{r: f}, map[string]bool{}
	return x.run()
}

// counter counts what is read from the archive.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// extraction is the state of reading one archive.
type extraction struct {
	root  *os.Root
	in    *counter
	limit int64 // bytes of all files together
	out   int64 // bytes written so far
	seen  map[string]bool
	// listed are the files that the manifest of a run that has ended has digests of; nil before it, and of a run that
	// was killed.
	listed map[string]bool
	// passing says that the files are read once and need not survive a crash.
	passing bool
	stop    func() error // tells why to end; nil for never
}

func (x *extraction) run() error {
	z, err := zstd.NewReader(x.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer z.Close()
	t := tar.NewReader(z)
	for {
		h, err := t.Next()
		if err == io.EOF && len(x.seen) > 0 {
			return nil
		}
		if err != nil && len(x.seen) == 0 {
			return fmt.Errorf("%w: not a tar archive compressed by zstd: %v; a bundle is the folder that a run "+
				"wrote, or a file that `tare bundle pack` made of it", ErrNotArchive, err)
		}
		if err != nil {
			return fmt.Errorf("%w: the archive is damaged or cut short after %d files: %v", ErrDamaged, len(x.seen),
				err)
		}
		if err := x.file(h, t); err != nil {
			return fmt.Errorf("%.80q: %w", h.Name, err)
		}
	}
}

// file takes one entry over, if it is a file that a bundle has.
func (x *extraction) file(h *tar.Header, r io.Reader) error {
	switch {
	case h.Typeflag != tar.TypeReg:
		return fmt.Errorf("%w: only plain files are unpacked, no folders, links or devices", ErrNotArchive)
	case h.Name != ManifestFile && !validPath(h.Name) && !validTraced(h.Name):
		return fmt.Errorf("%w: a bundle has no such file", ErrNotArchive)
	case x.seen[h.Name]:
		return fmt.Errorf("%w: it is in the archive twice", ErrNotArchive)
	case len(x.seen) == 0 && h.Name != ManifestFile:
		return fmt.Errorf("%w: %s does not come first", ErrNotArchive, ManifestFile)
	case x.listed != nil && h.Name != ManifestFile && !x.listed[h.Name]:
		return fmt.Errorf("%w: the manifest does not list it", ErrNotArchive)
	case len(x.seen) >= maxEntries:
		return fmt.Errorf("%w: more than %d files", ErrNotArchive, maxEntries)
	case h.Size > x.limit-x.out:
		return fmt.Errorf("%w: its %d bytes are more than a bundle may have here", ErrTooLarge, h.Size)
	case h.Size > sizeLimit(h.Name):
		return fmt.Errorf("%w: its %d bytes are more than a bundle may have", ErrNotArchive, h.Size)
	}
	for key := range h.PAXRecords {
		// Long names need a record; a sparse file would be another size than its header says.
		if key != "path" {
			return fmt.Errorf("%w: it has a tar record %.40q", ErrNotArchive, key)
		}
	}
	x.seen[h.Name] = true
	if err := x.write(h, r); err != nil {
		return err
	}
	if h.Name != ManifestFile {
		return nil
	}
	// A newer form is told before its files are judged by this one's rules.
	m, err := readManifest(x.root)
	if err != nil || m.State == Running {
		return err
	}
	x.listed = map[string]bool{PlanFile: true, EnvironmentsFile: true, TrialsFile: true}
	for _, f := range append(m.Files, m.Traced...) {
		x.listed[f.Path] = true
	}
	return nil
}

// sizeLimit is what reading accepts of a file of that name.
func sizeLimit(name string) int64 {
	switch name {
	case ManifestFile:
		return maxManifest
	case PlanFile:
		return plan.MaxFile
	case EnvironmentsFile:
		return maxEnvironments
	case TrialsFile:
		return maxArchive
	}
	if validTraced(name) {
		return maxTraced
	}
	return maxEvidence
}

func (x *extraction) write(h *tar.Header, r io.Reader) error {
	if dir := path.Dir(h.Name); dir != "." { // one of the two that a bundle has
		if err := x.root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	f, err := x.root.OpenFile(h.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = x.copy(f, r)
	if err == nil && !x.passing {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (x *extraction) copy(w io.Writer, r io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		if x.stop != nil {
			if err := x.stop(); err != nil {
				return err
			}
		}
		n, err := r.Read(buf)
		x.out += int64(n)
		if x.out > x.limit {
			return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, x.limit)
		}
		if x.out > ratioAfter && x.out/maxRatio > x.in.n {
			return fmt.Errorf("%w: it unpacks to more than %d times its size", ErrNotArchive, maxRatio)
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%w: the archive is damaged or cut short here: %v", ErrDamaged, err)
		}
	}
}
