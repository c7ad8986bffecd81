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

// maxTag bounds the length of a tag, in bytes: QEMU's 9p allows 31, virtio-fs 36.
const maxTag = 31

// tagOf is the name of a device in the guest: the mount's name, or a hash of a long name.
func tagOf(name string) string {
	if len(name) <= maxTag {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "tare-" + hex.EncodeToString(sum[:12])
}

// comma doubles commas, QEMU's escape for a comma in an option.
func comma(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// pathError is the error of a path that a server's configuration cannot contain.
type pathError struct{ path, why string }

func (e *pathError) Error() string {
	return fmt.Sprintf("the path %q %s, which this server's configuration cannot contain", e.path, e.why)
}

// elsewhere is the remedy for a pathError.
const elsewhere = "set TMPDIR to a folder with a plain name"

// plain says why a path cannot be written into a configuration file. special lists the characters that have a meaning
// in the file's syntax and cannot be quoted. Control characters are always rejected: a newline ends the line in every
// such file.
func plain(path, special string) error {
	if !utf8.ValidString(path) {
		return &pathError{path, "is not UTF-8"}
	}
	for _, r := range path {
		if r < ' ' || r == 0x7f || strings.ContainsRune(special, r) {
			return &pathError{path, fmt.Sprintf("contains %q", r)}
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

// lastLine returns the last line of a program's output that is not empty.
func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(proc.Printable(b)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
