package microvm

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"

	"tare/internal/measure/guestabi"
)

var directories = []string{"dev", "etc", inside(guestabi.Modules), "proc", "root", "run", inside(guestabi.Scratch),
	"sys", "tmp"}

// inside converts an absolute path of the guest to a path in the archive.
func inside(path string) string { return strings.TrimPrefix(path, "/") }

// Contents is the input of a guest's initramfs.
type Contents struct {
	Agent  string // a file of this machine, which becomes /init
	Kernel Kernel
	// Modules are files of the kernel's folder in the order of loading. The guest does not start without them.
	Modules []string
	// Extra are modules that are loaded after those. If one cannot be loaded, the console says so and the guest goes
	// on.
	Extra []string
	Files []File // files of this machine; see Programs
	// Unsigned leaves out the modules' signatures. A kernel that checks one reads the whole module once more, which
	// takes an interpreted processor seconds. One that insists on them (Secure Boot) refuses such modules.
	Unsigned bool
}

// InitramfsInfo is the result of Initramfs.
type InitramfsInfo struct {
	SHA256 string // hexadecimal
	Bytes  int64
}

// Initramfs writes the archive that a guest boots from to the file dest. The same input gives the same bytes.
func Initramfs(dest string, c Contents) (done InitramfsInfo, err error) {
	f, err := os.OpenFile(dest, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return InitramfsInfo{}, fmt.Errorf("write initramfs: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			os.Remove(dest)
		}
	}()
	h := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(f, h), 1<<20)
	if err := errors.Join(writeInitramfs(cpio.Newc.Writer(w), c), w.Flush()); err != nil {
		return InitramfsInfo{}, fmt.Errorf("write initramfs: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return InitramfsInfo{}, fmt.Errorf("write initramfs: %w", err)
	}
	return InitramfsInfo{hex.EncodeToString(h.Sum(nil)), info.Size()}, nil
}

// writeInitramfs writes the archive. Owners and times are zero, so that the same files give the same archive. The
// writer skips records that it has already written, so a directory may be given once for each file in it.
func writeInitramfs(w cpio.RecordWriter, c Contents) error {
	var records []cpio.Record
	for _, d := range directories {
		records = append(records, cpio.Directory(d, 0o755))
	}
	records = append(records,
		// The kernel opens /dev/console for its first process before devtmpfs can be mounted.
		cpio.CharDev("dev/console", 0o600, 5, 1),
		cpio.StaticFile("etc/group", "root:x:0:\n", 0o644),
		cpio.StaticFile("etc/hosts", "127.0.0.1 localhost\n", 0o644),
		// Without this file the C library looks up users over the network.
		cpio.StaticFile("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n", 0o644),
		cpio.StaticFile("etc/os-release", "ID=tare\nNAME=tare\nPRETTY_NAME=\"tare micro-VM\"\n", 0o644),
		cpio.StaticFile("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", 0o644),
	)
	if err := cpio.WriteRecords(w, records); err != nil {
		return err
	}
	if err := writeModules(w, c); err != nil {
		return err
	}
	for _, f := range c.Files {
		name := inside(f.Path)
		for i, r := range name {
			if r == '/' {
				if err := w.WriteRecord(cpio.Directory(name[:i], 0o755)); err != nil {
					return err
				}
			}
		}
		if err := copyFile(w, name, f.Mode, f.Path); err != nil {
			return err
		}
	}
	if err := copyFile(w, inside(guestabi.Init), 0o755, c.Agent); err != nil {
		return err
	}
	return cpio.WriteTrailer(w)
}

func writeModules(w cpio.RecordWriter, c Contents) error {
	var order strings.Builder
	seen := map[string]bool{}
	for i, m := range slices.Concat(c.Modules, c.Extra) {
		name, ok := ModuleName(m)
		if !ok || seen[name] {
			return fmt.Errorf("%q is not a module or is listed twice", m)
		}
		seen[name] = true
		b, err := ReadModule(filepath.Join(c.Kernel.Modules, filepath.FromSlash(m)))
		if err != nil {
			return err
		}
		if c.Unsigned {
			b = withoutSignature(b)
		}
		if err := w.WriteRecord(cpio.StaticFile(inside(guestabi.Modules)+"/"+name+".ko", string(b),
			0o600)); err != nil {
			return err
		}
		if i >= len(c.Modules) {
			order.WriteString(guestabi.MayFail)
		}
		order.WriteString(name + ".ko\n")
	}
	return w.WriteRecord(cpio.StaticFile(inside(guestabi.Order), order.String(), 0o600))
}

func copyFile(w cpio.RecordWriter, name string, mode uint32, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() >= 1<<32 {
		return fmt.Errorf("%s has %d bytes, too many for an initramfs", path, info.Size())
	}
	return w.WriteRecord(cpio.Record{
		ReaderAt: io.NewSectionReader(f, 0, info.Size()),
		Info:     cpio.Info{Name: name, Mode: cpio.S_IFREG | uint64(mode), FileSize: uint64(info.Size())},
	})
}
