package microvm

import (
	"fmt"
	"io"
)

// cpio writes an archive in the new ASCII format that Linux unpacks into its first file system. It keeps the first error.
// The format is that of Documentation/driver-api/early-userspace/buffer-format.rst; owners and times are zero, so that
// the same files give the same archive.
type cpio struct {
	w     io.Writer
	n     int64 // bytes written
	inode uint32
	err   error
}

const (
	modeDir     = 0o040000
	modeRegular = 0o100000
	modeChar    = 0o020000
	cpioTrailer = "TRAILER!!!"
)

func newCPIO(w io.Writer) *cpio { return &cpio{w: w} }

func (c *cpio) dir(name string, perm uint32) { c.header(name, modeDir|perm, 2, 0, 0, 0) }

func (c *cpio) charDevice(name string, perm, major, minor uint32) {
	c.header(name, modeChar|perm, 1, 0, major, minor)
}

func (c *cpio) bytes(name string, perm uint32, b []byte) {
	c.header(name, modeRegular|perm, 1, int64(len(b)), 0, 0)
	c.write(b)
	c.pad()
}

// file copies exactly size bytes from r.
func (c *cpio) file(name string, perm uint32, r io.Reader, size int64) {
	c.header(name, modeRegular|perm, 1, size, 0, 0)
	if c.err != nil {
		return
	}
	n, err := io.CopyN(c.w, r, size)
	c.n += n
	if err != nil {
		c.err = fmt.Errorf("copy %s: %w", name, err)
	}
	c.pad()
}

// close ends the archive.
func (c *cpio) close() error {
	c.inode = 0
	c.header(cpioTrailer, 0, 1, 0, 0, 0)
	return c.err
}

func (c *cpio) header(name string, mode, links uint32, size int64, major, minor uint32) {
	if size >= 1<<32 && c.err == nil {
		c.err = fmt.Errorf("%s has %d bytes, too many for an initramfs", name, size)
	}
	c.inode++
	h := "070701"
	for _, v := range []uint32{c.inode, mode, 0, 0, links, 0, uint32(size), 0, 0, major, minor, uint32(len(name) + 1), 0} {
		h += fmt.Sprintf("%08x", v)
	}
	c.write([]byte(h + name + "\x00"))
	c.pad()
}

func (c *cpio) write(b []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(b)
	c.n, c.err = c.n+int64(n), err
}

// pad fills up to a multiple of four bytes, on which every header and every file's content begins.
func (c *cpio) pad() { c.write(make([]byte, (4-c.n%4)%4)) }
