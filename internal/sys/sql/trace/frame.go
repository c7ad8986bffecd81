package trace

import "encoding/binary"

// The first byte of a frame contains the operation in its lower four bits, and these flags.
const (
	opMask    = 0x0f
	volatile  = 0x10
	withNames = 0x20 // Statement, Database, User, Name
	withTypes = 0x40
	withParam = 0x80
)

// appendFrame appends the frame of an event. Numbers are uvarints; 1 is added to those that can be -1. Slices follow
// their length, parameters their length plus 1, or 0 for NULL.
func appendFrame(b []byte, e *Event) []byte {
	first := byte(e.Op)
	if e.Volatile {
		first |= volatile
	}
	if e.Statement != 0 || len(e.Database)+len(e.User)+len(e.Name) > 0 {
		first |= withNames
	}
	if len(e.Params) > 0 {
		first |= withParam
	}
	if len(e.Types) > 0 {
		first |= withTypes
	}
	b = append(b, first)
	b = binary.AppendUvarint(b, e.Number)
	b = binary.AppendUvarint(b, uint64(e.At+1))
	b = binary.AppendUvarint(b, uint64(e.Rows+1))
	b = binary.AppendUvarint(b, uint64(e.Fingerprint))
	b = appendBytes(b, e.Text)
	if first&withNames != 0 {
		b = binary.AppendUvarint(b, uint64(e.Statement))
		b = appendBytes(appendBytes(appendBytes(b, e.Database), e.User), e.Name)
	}
	if first&withParam != 0 {
		b = binary.AppendUvarint(b, uint64(len(e.Params)))
		for _, p := range e.Params {
			if p == nil {
				b = append(b, 0)
				continue
			}
			b = binary.AppendUvarint(b, uint64(len(p))+1)
			b = append(b, p...)
		}
	}
	for _, t := range e.Types {
		b = append(b, byte(t))
	}
	return b
}

func appendBytes(b, s []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }

// appendFingerprint appends a fingerprint to the index.
func appendFingerprint(b []byte, k *Fingerprint) []byte {
	b = binary.AppendUvarint(b, k.ID)
	for _, s := range []string{k.Text, k.Class, k.Volatile} {
		b = appendBytes(b, []byte(s))
	}
	return binary.AppendUvarint(b, uint64(k.Statements))
}

// frames reads the frames of a chunk, and the fingerprints of the index.
type frames struct {
	b   []byte // unread bytes
	bad bool   // invalid bytes were read
}

func (f *frames) fail() { f.b, f.bad = nil, true }

func (f *frames) uint() uint64 {
	n, size := binary.Uvarint(f.b)
	if size <= 0 {
		f.fail()
		return 0
	}
	f.b = f.b[size:]
	return n
}

// small reads a number of at most 32 bits.
func (f *frames) small() uint32 {
	n := f.uint()
	if n > 1<<32-1 {
		f.fail()
	}
	return uint32(n)
}

// orNone reads a number that can be -1.
func (f *frames) orNone() int64 {
	n := f.uint()
	if n > 1<<63-1 {
		f.fail()
	}
	return int64(n) - 1
}

func (f *frames) take(n uint64) []byte {
	if n > uint64(len(f.b)) {
		f.fail()
		return nil
	}
	s := f.b[:n:n]
	f.b = f.b[n:]
	return s
}

func (f *frames) bytes() []byte { return f.take(f.uint()) }

// next reads a frame. It returns false if the bytes are not a valid frame.
func (f *frames) next(e *Event) bool {
	var first byte
	if b := f.take(1); b != nil {
		first = b[0]
	}
	*e = Event{Op: Op(first & opMask), Volatile: first&volatile != 0, Number: f.uint(), At: f.orNone(),
		Rows: f.orNone(), Fingerprint: f.small(), Text: f.bytes(), Params: e.Params[:0], Types: e.Types[:0]}
	if first&withNames != 0 {
		e.Statement, e.Database, e.User, e.Name = f.small(), f.bytes(), f.bytes(), f.bytes()
	}
	if first&withParam != 0 {
		f.params(e)
	}
	if first&withTypes != 0 {
		for _, t := range f.take(uint64(len(e.Params))) {
			if Type(t) >= types {
				f.fail()
			}
			e.Types = append(e.Types, Type(t))
		}
	}
	return !f.bad && e.Op > 0 && e.Op < ops
}

func (f *frames) params(e *Event) {
	n := f.uint()
	if n > maxParams {
		f.fail()
	}
	for ; n > 0 && !f.bad; n-- {
		if size := f.uint(); size > 0 {
			e.Params = append(e.Params, f.take(size-1))
		} else {
			e.Params = append(e.Params, nil)
		}
	}
}

func (f *frames) fingerprint() Fingerprint {
	return Fingerprint{ID: f.uint(), Text: string(f.bytes()), Class: string(f.bytes()), Volatile: string(f.bytes()),
		Statements: int64(f.uint() & (1<<63 - 1))}
}
