package log

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"

	"tare/internal/sys/ledger"
)

func isEnd(err error) bool { return errors.Is(err, io.EOF) }

// Compression is how a file is compressed: "gzip", "bzip2", "zstd", "xz", or "" for not at all.
type Compression string

// Decompress returns the uncompressed content of a file, and its compression. Files of several streams, one behind the
// other, are read to their end. bunzip reads bzip2.
func Decompress(src io.Reader, bunzip func(io.Reader) io.Reader) (io.Reader, Compression, error) {
	b := bufio.NewReaderSize(src, chunk)
	magic, err := b.Peek(6)
	if err != nil && !isEnd(err) {
		return nil, "", err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		return z, "gzip", err
	case bytes.HasPrefix(magic, []byte("BZh")):
		return bunzip(b), "bzip2", nil
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, "zstd", err
		}
		return z, "zstd", nil
	case bytes.HasPrefix(magic, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		z, err := xz.NewReader(b, 0)
		return z, "xz", err
	}
	return b, "", nil
}

// Files are the parts of a log that was rotated, in the order of their times, read one after the other as one log.
type Files struct {
	open  func() (io.ReadCloser, error)
	now   io.ReadCloser
	size  int64 // read so far, with the line feeds that were put in
	last  byte  // the last byte of the part that was read before
	next  *bufio.Reader
	first bool // nothing of it was read
	// begins tells whether a record begins with some bytes. Then a part that ends without the end of a line was cut off
	// there; else the next goes on with it.
	begins func([]byte) bool
	edits  []edit
	// Waits, if set, tells whether a log that grows has no more for now.
	Waits func() bool
}

// edit is an offset at which a line feed was put in, or the mark of UTF-8 was left out.
type edit struct{ at, cost int64 }

// idle tells whether a read would have to wait.
func (f *Files) idle() bool { return f.next != nil && f.next.Buffered() == 0 && f.Waits() }

// Join makes one log of parts, each of which is opened when it is needed and closed behind its end.
func Join(open ...func() (io.ReadCloser, error)) *Files {
	return JoinAll(func() (io.ReadCloser, error) {
		if len(open) == 0 {
			return nil, io.EOF
		}
		first := open[0]
		open = open[1:]
		return first()
	})
}

// JoinAll makes one log of parts that a function opens one after the other, until it returns io.EOF.
func JoinAll(open func() (io.ReadCloser, error)) *Files { return &Files{open: open} }

func (f *Files) Read(p []byte) (int, error) {
	for {
		if f.next == nil {
			part, err := f.open()
			if err != nil {
				return 0, err
			}
			f.now = part
			f.next, f.first = bufio.NewReaderSize(part, 4<<10), true
			if err := f.begin(); err != nil {
				return 0, err
			}
		}
		if f.size > 0 && f.last != '\n' && f.first {
			if b, _ := f.next.Peek(maxHead); f.begins(b) && len(p) > 0 {
				p[0], f.last = '\n', '\n'
				f.edits = append(f.edits, edit{f.size, -1})
				f.size++
				return 1, nil
			}
		}
		f.first = false
		n, err := f.next.Read(p)
		f.size += int64(n)
		if n > 0 {
			f.last = p[n-1]
			return n, nil
		}
		if err == nil {
			continue
		}
		if !isEnd(err) {
			return 0, err
		}
		f.next = nil
		if err := f.now.Close(); err != nil {
			return 0, fmt.Errorf("close a part of the log: %w", err)
		}
	}
}

// begin looks at the first bytes of a part: the mark of UTF-8 is left out, and a file that is no log is refused.
func (f *Files) begin() error {
	if f.Waits == nil {
		head, _ := f.next.Peek(foreignHead)
		if what := ledger.Foreign(head); what != "" {
			return fmt.Errorf("it is %s", what)
		}
	}
	if b, _ := f.next.Peek(len(ledger.Mark)); string(b) == ledger.Mark {
		f.next.Discard(len(b))
		f.edits = append(f.edits, edit{f.size, int64(len(b))})
	}
	return nil
}

// foreignHead is the number of bytes by which a file that is no log is told.
const foreignHead = 512

// Close closes the part that is being read.
func (f *Files) Close() error {
	if f.next == nil {
		return nil
	}
	f.next = nil
	return f.now.Close()
}

// begins returns the function by which Files tells whether a part ends in the middle of a line.
func (r *Reader) begins() func([]byte) bool {
	if r.wrapped != "" {
		return anyBegin
	}
	switch x := r.reader.(type) {
	case *generalLog:
		return func(b []byte) bool { return isBegin(x, b) }
	case *slowLog:
		return func(b []byte) bool { return isBegin(x, b) }
	case *pgCSV:
		return func(b []byte) bool { return isBegin(x, b) }
	case *pgStderr:
		return func(b []byte) bool {
			var rec pgRecord
			line, _, _ := bytes.Cut(b, []byte("\n"))
			_, s := x.prefix.match(r, line, &rec)
			return s != noSeverity
		}
	case *auditCSV:
		return x.begins
	}
	return anyBegin
}

// anyBegin is begins for a log whose format is not known.
func anyBegin(b []byte) bool {
	var c clock
	if len(b) > 0 && b[0] == '{' || isBegin(&generalLog{}, b) || isBegin(&slowLog{}, b) || isBegin(&pgCSV{}, b) {
		return true
	}
	_, n := c.stamp(b)
	return n > 0
}

func isBegin(f shape, b []byte) bool {
	_, ok := f.begins(b)
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return ok || banner(line)
}
