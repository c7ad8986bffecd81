package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// HeaderSize is the length of a frame's header: payload length u32, type u8, flags u8, trial u32, big endian.
const HeaderSize = 10

// MaxPayload is the largest payload of a frame, in bytes.
const MaxPayload = 4 << 20

// firstPiece is the number of bytes that are allocated for a payload before any of it has arrived. A header with a
// false length costs at most twice the bytes that really arrived.
const firstPiece = 16 << 10

// Frame is one message. Trial ties answers and marks to their request; 0 belongs to none.
type Frame struct {
	Type    Type
	Trial   uint32
	Payload []byte
}

// Decode reads a JSON payload into v.
func (f Frame) Decode(v any) error {
	if err := json.Unmarshal(f.Payload, v); err != nil {
		return fmt.Errorf("decode %s frame: %w", f.Type, err)
	}
	return nil
}

// FormatError is the error of a stream that does not contain frames: the two ends are out of step, and nothing after it
// can be trusted.
type FormatError struct{ Message string }

func (e *FormatError) Error() string { return "read frame: " + e.Message }

// Reader reads frames. It is not safe for concurrent use.
type Reader struct {
	r      *bufio.Reader
	header [HeaderSize]byte
}

// NewReader returns a Reader on r. It may read ahead.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 64<<10)} }

// Read returns the next frame. At the end of the stream between two frames the error is io.EOF itself; inside a frame
// it wraps io.ErrUnexpectedEOF; bytes that cannot be a frame give a *FormatError. The payload belongs to the caller.
func (r *Reader) Read() (Frame, error) {
	if _, err := io.ReadFull(r.r, r.header[:]); err != nil {
		if err == io.EOF {
			return Frame{}, err
		}
		return Frame{}, fmt.Errorf("read frame header: %w", err)
	}
	n := binary.BigEndian.Uint32(r.header[:4])
	f := Frame{Type: Type(r.header[4]), Trial: binary.BigEndian.Uint32(r.header[6:])}
	switch {
	case n > MaxPayload:
		return Frame{}, &FormatError{fmt.Sprintf("length %d is above the limit of %d bytes", n, MaxPayload)}
	case f.Type < TypeHello || f.Type > typeLast:
		return Frame{}, &FormatError{fmt.Sprintf("unknown type %d", f.Type)}
	case r.header[5] != 0:
		return Frame{}, &FormatError{fmt.Sprintf("unknown flags %#x", r.header[5])}
	case n == 0:
		return f, nil
	}
	var err error
	if f.Payload, err = r.payload(int(n)); err != nil {
		return Frame{}, fmt.Errorf("read payload of %s frame: %w", f.Type, err)
	}
	return f, nil
}

// payload reads n bytes into a buffer that grows with what arrives.
func (r *Reader) payload(n int) ([]byte, error) {
	buf := make([]byte, min(n, firstPiece))
	for have := 0; ; {
		m, err := io.ReadFull(r.r, buf[have:])
		have += m
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if have == n {
			return buf, nil
		}
		grown := make([]byte, min(n, 2*have))
		copy(grown, buf)
		buf = grown
	}
}

// Writer writes frames, each with a single Write of the underlying writer. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	buf []byte
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes one frame. A payload above MaxPayload is refused before anything is written.
func (w *Writer) Write(f Frame) error {
	if len(f.Payload) > MaxPayload {
		return fmt.Errorf("write %s frame: %d bytes are above the limit of %d", f.Type, len(f.Payload), MaxPayload)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = binary.BigEndian.AppendUint32(w.buf[:0], uint32(len(f.Payload)))
	w.buf = append(w.buf, byte(f.Type), 0)
	w.buf = binary.BigEndian.AppendUint32(w.buf, f.Trial)
	w.buf = append(w.buf, f.Payload...)
	if _, err := w.w.Write(w.buf); err != nil {
		return fmt.Errorf("write %s frame: %w", f.Type, err)
	}
	if cap(w.buf) > 64<<10 {
		w.buf = nil
	}
	return nil
}

// Flush returns when what was written has left this system, as far as the stream knows: one on a slow line does.
func (w *Writer) Flush() error {
	if f, ok := w.w.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}

// Mark writes a frame without payload.
func (w *Writer) Mark(t Type, trial uint32) error { return w.Write(Frame{Type: t, Trial: trial}) }

// JSON writes a frame with v as its payload.
func (w *Writer) JSON(t Type, trial uint32, v any) error {
	p, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s frame: %w", t, err)
	}
	return w.Write(Frame{Type: t, Trial: trial, Payload: p})
}
