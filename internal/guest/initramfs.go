package guest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"tare/internal/guest/layout"
)

var directories = []string{"dev", "etc", inside(layout.Modules), "proc", "root", "run", inside(layout.Scratch), "sys", "tmp"}

// inside makes a guest's absolute path one of the archive.
func inside(path string) string { return strings.TrimPrefix(path, "/") }

// Initramfs writes the archive that a guest boots from into the file dest: the agent as /init and the named modules, given
// as files of Modules in the order of loading. The same input gives the same bytes. It returns their SHA-256.
func Initramfs(dest, agent string, k Kernel, modules []string) (sum string, err error) {
	f, err := os.OpenFile(dest, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("write initramfs: %w", err)
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
	if err := writeInitramfs(w, agent, k, modules); err != nil {
		return "", fmt.Errorf("write initramfs: %w", err)
	}
	if err := w.Flush(); err != nil {
		return "", fmt.Errorf("write initramfs: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func writeInitramfs(w io.Writer, agent string, k Kernel, modules []string) error {
	c := newCPIO(w)
	for _, d := range directories {
		c.dir(d, 0o755)
	}
	// The kernel gives its first process /dev/console, which must exist before devtmpfs can be mounted.
	c.charDevice("dev/console", 0o600, 5, 1)
	c.bytes("etc/group", 0o644, []byte("root:x:0:\n"))
	c.bytes("etc/os-release", 0o644, []byte("ID=tare\nNAME=tare\nPRETTY_NAME=\"tare micro-VM\"\n"))
	c.bytes("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	var order bytes.Buffer
	seen := map[string]bool{}
	for _, m := range modules {
		name, ok := ModuleName(m)
		if !ok || seen[name] {
			return fmt.Errorf("%q is no module or is listed twice", m)
		}
		seen[name] = true
		b, err := ReadModule(filepath.Join(k.Modules, filepath.FromSlash(m)))
		if err != nil {
			return err
		}
		c.bytes(inside(layout.Modules)+"/"+name+".ko", 0o600, b)
		order.WriteString(name + ".ko\n")
	}
	c.bytes(inside(layout.Order), 0o600, order.Bytes())
	f, err := os.Open(agent)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	c.file(inside(layout.Init), 0o755, f, info.Size())
	return c.close()
}
