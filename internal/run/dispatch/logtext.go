package dispatch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
)

// A result in a log: lines that begin with logMark among whatever else a container prints. The first names the size and
// the digest, the last is the end, and those between have a piece each, with its number.
const (
	logMark  = "tare-result: "
	logBegin = "begin"
	logEnd   = "end"
	logPiece = 3000 // bytes of a line's piece: runtimes of containers cut lines of 16 KiB
)

// MaxLogged bounds a result in a log, in bytes.
const MaxLogged = 256 << 20

// ErrNotLogged is returned for a log that does not hold a whole result.
var ErrNotLogged = errors.New("the log does not hold the whole result")

// WriteLogged writes a result as lines of a log. r is read twice.
func WriteLogged(w io.Writer, r io.ReadSeeker) error {
	h := sha256.New()
	size, err := io.Copy(h, r)
	if err == nil {
		_, err = r.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s%s %d %x\n", logMark, logBegin, size, h.Sum(nil))
	piece := make([]byte, logPiece)
	for n := 0; ; n++ {
		k, err := io.ReadFull(r, piece)
		if k > 0 {
			fmt.Fprintf(out, "%s%d %s\n", logMark, n, base64.StdEncoding.EncodeToString(piece[:k]))
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
	}
	fmt.Fprintf(out, "%s%s\n", logMark, logEnd)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// logParser is a result while its lines are read.
type logParser struct {
	w      io.Writer
	size   int64 // -1 before its first line
	digest string
	got    int64
	pieces int
	sum    hash.Hash
}

// ReadLogged finds the last result in a log and writes it to w, which is emptied by restart where another one begins.
// The error is ErrNotLogged where there is none, or not the whole of it: then w has the part that came.
func ReadLogged(log io.Reader, w io.Writer, restart func() error) error {
	l := &logParser{w: w, size: -1}
	lines := bufio.NewReaderSize(log, 1<<16)
	whole := false
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			// Something else than a result's line: the rest of it does not matter.
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = lines.ReadSlice('\n')
			}
			line = nil
		}
		if rest, ok := bytes.CutPrefix(line, []byte(logMark)); ok {
			word, value, _ := strings.Cut(strings.TrimRight(string(rest), "\r\n"), " ")
			if word == logBegin && l.size >= 0 {
				if err := restart(); err != nil {
					return err
				}
			}
			done, err := l.line(word, value)
			if err != nil {
				return err
			}
			whole = done
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	switch {
	case whole:
		return nil
	case l.size < 0:
		return ErrNotLogged
	}
	return fmt.Errorf("%w: %d of %d bytes are there", ErrNotLogged, l.got, l.size)
}

// line takes one line of a result and tells whether it was the last of a whole one.
func (l *logParser) line(word, value string) (whole bool, err error) {
	switch word {
	case logBegin:
		size, digest, _ := strings.Cut(value, " ")
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil || n < 0 || n > MaxLogged {
			return false, fmt.Errorf("%w: it says %.40q of its size", ErrNotLogged, size)
		}
		*l = logParser{w: l.w, size: n, digest: digest, sum: sha256.New()}
		return false, nil
	case logEnd:
		return l.size >= 0 && l.got == l.size && hex.EncodeToString(l.sum.Sum(nil)) == l.digest, nil
	}
	if l.size < 0 {
		return false, nil // its first line is gone
	}
	piece, err := base64.StdEncoding.DecodeString(value)
	if n, e := strconv.Atoi(word); err != nil || e != nil || n != l.pieces || l.got+int64(len(piece)) > l.size {
		return false, nil // a line before it is gone, or this one is cut: the end finds that
	}
	l.pieces++
	l.got += int64(len(piece))
	l.sum.Write(piece)
	_, err = l.w.Write(piece)
	return false, err
}
