package developer

import (
	"bytes"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// Kinds of entries of a directory.
const (
	entryOther     = iota // a file, or anything else that holds no entries
	entryDirectory        //
	entryUnknown          // the file system did not report the type: a stat is needed
)

var errDirent = errors.New("the kernel returned a malformed directory entry")

// nextDirent reads one entry of what getdents64 filled in: inode and offset of 8 bytes each, length of 2, type of 1,
// then the name, ended by a zero byte. The name contains that byte, because system calls want it.
func nextDirent(p []byte) (name []byte, kind int, rest []byte, err error) {
	const header = 19
	if len(p) < header+2 {
		return nil, 0, nil, errDirent
	}
	n := int(binary.NativeEndian.Uint16(p[16:]))
	if n < header+2 || n > len(p) {
		return nil, 0, nil, errDirent
	}
	end := bytes.IndexByte(p[header:n], 0)
	if end < 1 {
		return nil, 0, nil, errDirent
	}
	switch p[18] {
	case unix.DT_DIR:
		kind = entryDirectory
	case unix.DT_UNKNOWN:
		kind = entryUnknown
	}
	return p[header : header+end+1], kind, p[n:], nil
}
