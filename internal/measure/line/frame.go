package line

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// Frames stand between flags. In a frame, flag and escape are sent as escape and the byte with another bit 5.
const (
	flag    = 0x7e
	escape  = 0x7d
	flipped = 0x20
)

// kind is the purpose of a frame.
type kind byte

const (
	kindCall   kind = 1 // guest: it has no session
	kindOpen   kind = 2 // controller: number of the session that begins, u32
	kindStream kind = 3 // data, acknowledgement, or both; see segment
	kindAsk    kind = 4 // controller: number of answers wanted, u8; ignored filler
	kindAnswer kind = 5 // guest: ignored filler

	fromHost kind = 0x80
)

const (
	maxData  = 1 << 10 // bytes of a stream in a frame: on a line with 115,200 baud they take 90 ms
	maxFrame = maxData + 64
	sumSize  = 4
)

// appendFrame appends a whole frame to b. salt is the session's number, 0 for frames outside of sessions.
func appendFrame(b []byte, k kind, salt uint32, body ...[]byte) []byte {
	sum := crc32.Update(salted(salt), crc32.IEEETable, []byte{byte(k)})
	b = appendEscaped(append(b, flag), []byte{byte(k)})
	for _, part := range body {
		sum = crc32.Update(sum, crc32.IEEETable, part)
		b = appendEscaped(b, part)
	}
	return append(appendEscaped(b, binary.LittleEndian.AppendUint32(nil, sum)), flag)
}

// salted begins a checksum that also covers the session's number.
func salted(salt uint32) uint32 {
	if salt == 0 {
		return 0
	}
	return crc32.ChecksumIEEE(binary.LittleEndian.AppendUint32(nil, salt))
}

func appendEscaped(b, part []byte) []byte {
	plain := 0 // what is before it has been appended
	for i, c := range part {
		if c == flag || c == escape {
			b = append(append(b, part[plain:i]...), escape, c^flipped)
			plain = i + 1
		}
	}
	return append(b, part[plain:]...)
}

// parseFrame reads what stood between two flags, into the memory of out. A frame is one of the session with that
// number, or of none.
func parseFrame(out, raw []byte, salt uint32) (k kind, body []byte, ok bool) {
	out = out[:0]
	for {
		i := bytes.IndexByte(raw, escape)
		if i < 0 {
			out = append(out, raw...)
			break
		}
		if i+1 == len(raw) {
			return 0, nil, false
		}
		out = append(append(out, raw[:i]...), raw[i+1]^flipped)
		raw = raw[i+2:]
	}
	if len(out) < 1+sumSize {
		return 0, nil, false
	}
	end := len(out) - sumSize
	k, body = kind(out[0]), out[1:end]
	if k &^= fromHost; k == kindCall || k == kindOpen {
		salt = 0
	}
	sum := crc32.Update(salted(salt), crc32.IEEETable, out[:end])
	return kind(out[0]), body, sum == binary.LittleEndian.Uint32(out[end:])
}

// segment is the body of a stream's frame. The end of a stream counts as one byte after its last.
type segment struct {
	ack                     uint64 // all bytes before this one have arrived
	limit                   uint64 // the other end has room for the bytes before this one
	damage, poll, data, end bool
	offset                  uint64 // of the first byte of payload
	payload                 []byte
}

const (
	hasData   = 1 << iota // offset and payload follow
	hasEnd                // the stream ends after the payload
	hasDamage             // something damaged has arrived since: send again from ack
	hasPoll               // answer this
)

// head makes everything but the payload.
func (s *segment) head(b []byte) []byte {
	var flags byte
	for i, is := range [...]bool{s.data, s.end, s.damage, s.poll} {
		if is {
			flags |= 1 << i
		}
	}
	b = binary.AppendUvarint(append(b, flags), s.ack)
	b = binary.AppendUvarint(b, s.limit)
	if s.data {
		b = binary.AppendUvarint(b, s.offset)
	}
	return b
}

// parseSegment reads a segment. The payload is a part of b.
func parseSegment(b []byte) (s segment, ok bool) {
	if len(b) == 0 || b[0] >= hasPoll<<1 {
		return s, false
	}
	flags := b[0]
	s.data, s.end, s.damage, s.poll = flags&hasData != 0, flags&hasEnd != 0, flags&hasDamage != 0, flags&hasPoll != 0
	if s.end && !s.data {
		return s, false
	}
	b = b[1:]
	fields := []*uint64{&s.ack, &s.limit}
	if s.data {
		fields = append(fields, &s.offset)
	}
	for _, f := range fields {
		v, n := binary.Uvarint(b)
		if n <= 0 || v >= 1<<62 {
			return s, false
		}
		*f, b = v, b[n:]
	}
	s.payload = b
	return s, s.data || len(b) == 0
}

// splitter finds the frames in what arrives.
type splitter struct {
	raw []byte // since the last flag
}

// maxRaw is the longest frame on the line, when each of its bytes is escaped.
const maxRaw = 2 * maxFrame

// feed takes bytes from the line. chunk gets what stands between two flags, which is a frame or noise, and what is too
// long for a frame. It must not keep the bytes.
func (s *splitter) feed(b []byte, chunk func([]byte)) {
	for len(b) > 0 {
		piece := b[:min(len(b), maxRaw+1-len(s.raw))]
		end := bytes.IndexByte(piece, flag)
		if end >= 0 {
			piece = piece[:end]
			b = b[1:]
		}
		s.raw = append(s.raw, piece...)
		b = b[len(piece):]
		if len(s.raw) > 0 && end >= 0 || len(s.raw) > maxRaw {
			chunk(s.raw)
			s.raw = s.raw[:0]
		}
	}
}
