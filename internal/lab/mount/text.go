package mount

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// maxTag is how long a tag may be, bytes: QEMU's 9p takes 31, virtio-fs 36.
const maxTag = 31

// tagOf is by what a guest knows a device: the mount's name, or a hash of a long one.
func tagOf(name string) string {
	if len(name) <= maxTag {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "tare-" + hex.EncodeToString(sum[:12])
}

// comma doubles commas, which is how QEMU's options write one.
func comma(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// pathError is a path that a server's configuration cannot carry.
type pathError struct{ path, why string }

func (e *pathError) Error() string {
	return fmt.Sprintf("the path %q %s, which this server's configuration cannot contain", e.path, e.why)
}

// elsewhere is the remedy for a pathError.
const elsewhere = "set TMPDIR to a folder with a plain name"

// plain says why a path cannot be written into a configuration file whose syntax gives the characters in special a
// meaning that no quoting takes away. Control characters never pass: a newline begins the next line of every such file.
func plain(path, special string) error {
	if !utf8.ValidString(path) {
		return &pathError{path, "is not UTF-8"}
	}
	for _, r := range path {
		if r < ' ' || r == 0x7f || strings.ContainsRune(special, r) {
			return &pathError{path, fmt.Sprintf("holds %q", r)}
		}
	}
	if strings.TrimSpace(path) != path {
		return &pathError{path, "begins or ends with white space"}
	}
	return nil
}

func parseNumber(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || strings.HasPrefix(v, "+") {
		return 0, errors.New("not a whole number")
	}
	return n, nil
}

func parseSize(v string) (int64, error) { return unit.ParseSize(v) }

// lastLine returns the last line of a program's output that says something.
func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(proc.Printable(b)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
