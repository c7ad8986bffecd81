package log

import "io"

// window is the part of the log that is in memory: from the record that is being read to as far as was read ahead.
type window struct {
	src        io.Reader
	buf        []byte
	start, end int
	err        error // of reading src: nothing more comes
	took       int64 // bytes of the log that were taken
	unwrap     *unwrapper
	files      *Files
	at         int64 // bytes of src that were taken
	padded     bool  // the taken text had a line feed put in, because it was cut off
}

const (
	chunk    = 256 << 10 // bytes asked for at a time
	maxHead  = 160       // a record is known by so many bytes
	keptSize = 4 << 20   // the buffer shrinks to less than this when a large record is done
)

func (w *window) bytes() []byte { return w.buf[w.start:w.end] }

// more reads on. It returns false when nothing more comes. Slices of the window are no longer valid afterwards.
func (w *window) more() bool {
	if w.err != nil {
		return false
	}
	if len(w.buf)-w.end < chunk {
		w.buf, w.end = room(w.buf, w.start, w.end)
		w.start = 0
	}
	for range 100 {
		n, err := w.src.Read(w.buf[w.end : w.end+chunk])
		w.end += n
		w.err = err
		if n > 0 || err != nil {
			return n > 0
		}
	}
	w.err = io.ErrNoProgress
	return false
}

// room returns a buffer that begins with the bytes between start and end, and has room for a chunk behind them.
func room(buf []byte, start, end int) (to []byte, size int) {
	size, to = end-start, buf
	switch {
	case size < chunk && (len(buf) > keptSize || len(buf) < 2*chunk):
		to = make([]byte, 2*chunk)
	case start < len(buf)/2:
		to = make([]byte, max(2*len(buf), size+chunk))
	}
	return to, copy(to, buf[start:end])
}

// atLeast reads on until the window has n bytes, or the log ends.
func (w *window) atLeast(n int) []byte {
	for w.end-w.start < n && w.more() {
	}
	return w.bytes()
}

// head reads on until maxHead bytes are there behind an offset, or the log ends. Of a log that grows it waits for one
// byte, and for the others until a line has ended and there is no more for now.
func (w *window) head(at int) []byte {
	b := w.atLeast(at + 1)
	for len(b) > at && len(b) < at+maxHead {
		if w.files != nil && w.files.Waits != nil && b[len(b)-1] == '\n' && w.files.idle() {
			break
		}
		if !w.more() {
			break
		}
		b = w.bytes()
	}
	return w.bytes()
}

// line returns the first line of the window with its line feed, at most limit bytes of it, or less where the log ends.
func (w *window) line(limit int) []byte {
	for seen := 0; ; {
		b := w.bytes()
		for i := seen; i < len(b) && i < limit; i++ {
			if b[i] == '\n' {
				return b[:i+1]
			}
		}
		if len(b) >= limit {
			return b[:limit]
		}
		if seen = len(b); !w.more() {
			return w.bytes()
		}
	}
}

// take moves past n bytes and returns how many bytes of the log they are.
func (w *window) take(n int) int64 {
	w.start += n
	w.padded = false
	cost := int64(n)
	if w.files != nil {
		w.at += cost
		for f := w.files; len(f.edits) > 0 && f.edits[0].at < w.at; f.edits = f.edits[1:] {
			cost += f.edits[0].cost
			w.padded = w.padded || f.edits[0].cost < 0
		}
	}
	if w.unwrap != nil {
		cost = w.unwrap.cost(n)
	}
	w.took += cost
	return cost
}
