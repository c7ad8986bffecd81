package microvm

import (
	"bytes"
	"compress/bzip2"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"
	"github.com/pierrec/lz4/v4"
)

const (
	maxImage    = 256 << 20 // largest kernel image, bytes
	maxUnpacked = 512 << 20 // largest kernel in it, bytes
	// keptUnpacked is the number of unpacked kernels that stay in the cache. Each has about 60 MB.
	keptUnpacked = 6
)

// errNoEntry is wrapped by the error of Unpacked if a kernel has no entry point for a hypervisor.
var errNoEntry = errors.New("the kernel has no PVH entry point")

// Unpacked returns the uncompressed kernel of an x86 kernel image: an ELF file with an entry point that a hypervisor
// jumps to directly (PVH). The guest then need not unpack it; for a kernel compressed with xz, that takes an emulated
// processor many seconds. The file is made once and kept below cache, or below DefaultCache if cache is empty. An error
// says why there is none; the image still boots.
func Unpacked(cache, image string) (string, error) {
	return keptOf(cache, image, ".elf", func(b []byte) ([]byte, error) {
		kernel, err := unpackImage(b, maxUnpacked)
		if err == nil {
			err = checkEntry(kernel)
		}
		return kernel, err
	})
}

// keptOf returns a file that is made of a kernel image. It is made once and kept in the cache, with that ending.
func keptOf(cache, image, ending string, of func([]byte) ([]byte, error)) (string, error) {
	cache, err := orDefault(cache)
	if err != nil {
		return "", err
	}
	hash, err := hashFile(image)
	if err != nil {
		return "", fmt.Errorf("unpack kernel: %w", err)
	}
	dir := filepath.Join(cache, "unpacked")
	path := filepath.Join(dir, hash+ending)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // for prune; if this fails, the kernel may be unpacked again some day
		return path, nil
	}
	b, err := readBounded(image, maxImage)
	if err != nil {
		return "", fmt.Errorf("unpack kernel: %w", err)
	}
	if b, err = of(b); err != nil {
		return "", fmt.Errorf("unpack kernel %s: %w", image, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := writeWhole(path, b); err != nil {
		return "", fmt.Errorf("keep unpacked kernel: %w", err)
	}
	Prune(dir, keptUnpacked, func(name string) bool {
		return slices.Contains([]string{".elf", bareEnding}, filepath.Ext(name))
	})
	return path, nil
}

// writeWhole writes a file completely or not at all, even if the machine crashes or this process is killed.
func writeWhole(path string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Prune keeps so many of the entries of a cache that are whole, those used last, and removes the others. Of the partial
// ones of killed processes it removes those older than an hour.
func Prune(dir string, keep int, whole func(name string) bool) {
	entries, _ := os.ReadDir(dir)
	var found []os.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		if whole(e.Name()) {
			found = append(found, info)
		} else if time.Since(info.ModTime()) > time.Hour {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(found, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, old := range found[min(keep, len(found)):] {
		os.RemoveAll(filepath.Join(dir, old.Name()))
	}
}

// unpackImage returns the kernel in an image, at most limit bytes, from the header that boot loaders read:
// Documentation/arch/x86/boot.rst.
func unpackImage(b []byte, limit int64) ([]byte, error) {
	const protocol = 0x208 // the first version that says where the kernel is
	if bytes.HasPrefix(b, []byte(elf.ELFMAG)) {
		return b, nil // already unpacked
	}
	if len(b) < bootPayload+8 || !bytes.Equal(b[bootMagic:bootMagic+4], []byte("HdrS")) {
		return nil, errors.New("it is not a bzImage")
	}
	le := binary.LittleEndian
	if v := le.Uint16(b[bootMagic+4:]); v < protocol {
		return nil, fmt.Errorf("its boot protocol is %d.%02d; at least 2.08 is needed to find the kernel in it", v>>8,
			v&0xff)
	}
	from := uint64(setupBytes(b)) + uint64(le.Uint32(b[bootPayload:]))
	size := uint64(le.Uint32(b[bootPayload+4:]))
	if from > uint64(len(b)) || size > uint64(len(b))-from || size < 8 {
		return nil, fmt.Errorf("it has %d bytes, but its header puts the kernel in %d bytes from %d", len(b), size,
			from)
	}
	return unpackPayload(b[from:from+size], limit)
}

// unpackPayload decompresses a kernel. The magic number says which of the compressors of the kernel build was used. All
// but gzip append the kernel's size in four bytes, which are not part of the stream.
func unpackPayload(p []byte, limit int64) ([]byte, error) {
	var r io.Reader
	var err error
	switch body := bytes.NewReader(p[:len(p)-4]); {
	case bytes.HasPrefix(p, []byte{0x1f, 0x8b}):
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(p)); err == nil {
			z.Multistream(false)
			r = z
		}
	case bytes.HasPrefix(p, []byte("\xfd7zXZ\x00")):
		// xz uses the BCJ filter for x86, which few libraries support.
		var z *xz.Reader
		if z, err = xz.NewReader(body, maxDict); err == nil {
			z.Multistream(false)
			r = z
		}
	case bytes.HasPrefix(p, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		var z *zstd.Decoder
		// A kernel is one frame, with a window as large as the kernel: zstd --ultra -22.
		if z, err = zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxUnpacked),
			zstd.WithDecoderMaxMemory(uint64(limit))); err == nil {
			defer z.Close()
			r = z
		}
	case bytes.HasPrefix(p, []byte{0x02, 0x21, 0x4c, 0x18}):
		r = lz4.NewReader(body)
	case bytes.HasPrefix(p, []byte("BZh")):
		r = bzip2.NewReader(body)
	default:
		return nil, fmt.Errorf("its kernel begins with % x, which is not a known compression format",
			p[:min(6, len(p))])
	}
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(out)) > limit {
		return nil, fmt.Errorf("its kernel is larger than %d MiB", limit>>20)
	}
	return out, nil
}

// checkEntry checks that a kernel has the ELF note with its PVH entry point: XEN_ELFNOTE_PHYS32_ENTRY in Xen's
// public/elfnote.h. A kernel with CONFIG_PVH has it.
func checkEntry(kernel []byte) error {
	f, err := elf.NewFile(bytes.NewReader(kernel))
	if err != nil {
		return err
	}
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return fmt.Errorf("%w: it is a kernel for %v", errNoEntry, f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		notes, err := io.ReadAll(io.LimitReader(p.Open(), 1<<20))
		if err != nil {
			return fmt.Errorf("read the kernel's notes: %w", err)
		}
		if hasEntry(notes) {
			return nil
		}
	}
	return errNoEntry
}

// hasEntry looks for that note in a segment of notes.
func hasEntry(notes []byte) bool {
	const phys32Entry = 18
	pad := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
	for len(notes) >= 12 {
		le := binary.LittleEndian
		name, desc, kind := le.Uint32(notes), le.Uint32(notes[4:]), le.Uint32(notes[8:])
		notes = notes[12:]
		if pad(name)+pad(desc) > uint64(len(notes)) {
			return false
		}
		if kind == phys32Entry && bytes.Equal(notes[:name], []byte("Xen\x00")) && desc >= 4 {
			return true
		}
		notes = notes[pad(name)+pad(desc):]
	}
	return false
}
