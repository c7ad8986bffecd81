package microvm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/measure/guestabi"
)

var directories = []string{"dev", "etc", inside(guestabi.Modules), "proc", "root", "run", inside(guestabi.Scratch), "sys", "tmp"}

// inside makes a guest's absolute path one of the archive.
func inside(path string) string { return strings.TrimPrefix(path, "/") }

// Contents is what a guest is made of.
type Contents struct {
	Agent  string // a file, which becomes /init
	Kernel Kernel
	// Modules are files of the kernel's folder in the order of loading. A guest without one of them is none.
	Modules []string
	// Extra are modules loaded after those. One that cannot be loaded is only told on the console.
	Extra []string
	Files []File // of this machine; see Programs
}

// Written is what Initramfs wrote.
type Written struct {
	SHA256 string // hexadecimal
	Bytes  int64
}

// Initramfs writes the archive that a guest boots from into the file dest. The same input gives the same bytes.
func Initramfs(dest string, c Contents) (done Written, err error) {
	f, err := os.OpenFile(dest, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Written{}, fmt.Errorf("write initramfs: %w", err)
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
	a := newCPIO(w)
	if err := writeInitramfs(a, c); err != nil {
		return Written{}, fmt.Errorf("write initramfs: %w", err)
	}
	if err := w.Flush(); err != nil {
		return Written{}, fmt.Errorf("write initramfs: %w", err)
	}
	return Written{hex.EncodeToString(h.Sum(nil)), a.n}, nil
}

func writeInitramfs(a *cpio, c Contents) error {
	made := map[string]bool{}
	for _, d := range directories {
		a.dir(d, 0o755)
		made[d] = true
	}
	// The kernel gives its first process /dev/console, which must exist before devtmpfs can be mounted.
	a.charDevice("dev/console", 0o600, 5, 1)
	a.bytes("etc/group", 0o644, []byte("root:x:0:\n"))
	a.bytes("etc/hosts", 0o644, []byte("127.0.0.1 localhost\n"))
	// A C library asks the network for users when it is not told otherwise.
	a.bytes("etc/nsswitch.conf", 0o644, []byte("passwd: files\ngroup: files\nhosts: files\n"))
	a.bytes("etc/os-release", 0o644, []byte("ID=tare\nNAME=tare\nPRETTY_NAME=\"tare micro-VM\"\n"))
	a.bytes("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	if err := writeModules(a, c); err != nil {
		return err
	}
	for _, f := range c.Files {
		name := inside(f.Path)
		for i, r := range name {
			if r == '/' && !made[name[:i]] {
				a.dir(name[:i], 0o755)
				made[name[:i]] = true
			}
		}
		if err := copyFile(a, name, f.Mode, f.Path); err != nil {
			return err
		}
	}
	if err := copyFile(a, inside(guestabi.Init), 0o755, c.Agent); err != nil {
		return err
	}
	return a.close()
}

func writeModules(a *cpio, c Contents) error {
	var order bytes.Buffer
	seen := map[string]bool{}
	for i, m := range slices.Concat(c.Modules, c.Extra) {
		name, ok := ModuleName(m)
		if !ok || seen[name] {
			return fmt.Errorf("%q is no module or is listed twice", m)
		}
		seen[name] = true
		b, err := ReadModule(filepath.Join(c.Kernel.Modules, filepath.FromSlash(m)))
		if err != nil {
			return err
		}
		a.bytes(inside(guestabi.Modules)+"/"+name+".ko", 0o600, b)
		if i >= len(c.Modules) {
			order.WriteString(guestabi.MayFail)
		}
		order.WriteString(name + ".ko\n")
	}
	a.bytes(inside(guestabi.Order), 0o600, order.Bytes())
	return nil
}

func copyFile(a *cpio, name string, mode uint32, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	a.file(name, mode, f, info.Size())
	return a.err
}
