package http2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/net/http2/hpack"
)

// Bounds, so that a hostile server costs neither memory nor time.
const (
	maxHead     = 64 << 10  // of the header of a response, encoded and decoded, with interim ones and trailers
	maxLocation = 2 << 10   // of a redirect's target
	maxMemo     = 256       // headers that are kept
	maxIdle     = 10000     // frames in a row that bring no response and no request on
	maxReplies  = 1 << 20   // bytes of answers to such frames that the server does not take
	maxFrame    = 16 << 10  // of a frame, which is what a connection begins with
	window      = 1 << 30   // of what the server may send before it is told to go on
	outside     = 65535     // of what a connection begins with
	maxPending  = 256 << 10 // bytes to be sent, above which bodies of requests wait
	headerSize  = 9         // of a frame
	maxStream   = 1<<31 - 1
)

// clientPreface is what a client begins a connection with.
const clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// NewSession makes a session with places for streams. Without a memo, nil, each field of each header is told.
func NewSession(c Client, places int, m *Memo) *Session {
	s := &Session{client: c, memo: m, ids: make([]uint32, places), streams: make([]stream, places)}
	s.decoder = hpack.NewDecoder(tableSize, s.field)
	s.decoder.SetMaxStringLength(maxHead)
	s.Reset()
	return s
}

// stream is a request on its way.
type stream struct {
	head     Head
	headed   bool // its header has come
	bodiless bool
	body     int64
	heads    int    // bytes of its headers
	spent    int    // of its window since the server was last told
	left     int    // of its window
	room     int64  // for the request's body
	unsent   []byte // of the request's body
}

// Session is one connection, without its socket. It is not safe for concurrent use.
type Session struct {
	client  Client
	memo    *Memo
	ids     []uint32 // of the streams, by place; 0 where it is free
	streams []stream
	active  int
	next    uint32 // stream
	queued  []asked
	waiting bool // bodies wait until something has been sent
	settled bool // the server's settings have come
	leaves  bool
	bare    bool // the server's table is too small for the fields of requests
	shrunk  bool // and it has been told so
	idle    int  // frames that brought nothing on
	replies int  // bytes of answers in out

	out     []byte
	sent    int
	room    int64 // for bodies of requests
	initial int64 // room of a new stream
	left    int   // of the window for bodies of responses
	spent   int

	held   []byte // the beginning of a frame that has not come whole
	data   int    // bytes to come of a DATA frame
	pad    int    // of which this many are padding; -1 if the byte that says so has not come
	at     int    // place of its stream
	ends   bool   // it is the stream's last
	inside bool   // of a DATA frame

	decoder *hpack.Decoder
	skipped skipped
	block   []byte // a header that comes in several frames
	of      uint32 // its stream; 0 for none
	last    bool   // it ends its stream
	got     Head
	heads   int // bytes of the block, decoded
	place   int // whose block it is
	broken  error
}

// asked is a request that waits for the server's settings.
type asked struct {
	place   int
	request *Request
}

// Reset begins a new connection.
func (s *Session) Reset() {
	clear(s.ids)
	clear(s.streams)
	s.active, s.next, s.queued = 0, 1, s.queued[:0]
	s.settled, s.leaves, s.bare, s.shrunk, s.idle, s.replies = false, false, false, false, 0, 0
	s.waiting = false
	s.out, s.sent, s.room, s.initial, s.left, s.spent = s.out[:0], 0, outside, outside, window, 0
	s.held, s.data, s.inside = s.held[:0], 0, false
	s.block, s.of = s.block[:0], 0
	s.skipped.reset()
	_ = s.decoder.Close()
	s.decoder.SetMaxDynamicTableSize(0)
	s.decoder.SetMaxDynamicTableSize(tableSize)
	s.out = append(s.out, clientPreface...)
	p := make([]byte, 0, 3*settingSize)
	for _, set := range []struct {
		setting setting
		value   uint32
	}{{settingPush, 0}, {settingWindow, window}, {settingHead, maxHead}} {
		p = binary.BigEndian.AppendUint16(p, uint16(set.setting))
		p = binary.BigEndian.AppendUint32(p, set.value)
	}
	s.frame(frameSettings, 0, 0, p)
	s.number(frameWindow, 0, window-outside)
}

// Active is the number of places that are not free.
func (s *Session) Active() int { return s.active + len(s.queued) }

// Asked tells whether a place is not free.
func (s *Session) Asked(place int) bool {
	return s.ids[place] != 0 || slices.ContainsFunc(s.queued, func(a asked) bool { return a.place == place })
}

// Uploads tells whether the server has not made room yet for the rest of a request's body.
func (s *Session) Uploads(place int) bool {
	return s.ids[place] != 0 && len(s.streams[place].unsent) > 0
}

// Full tells whether the connection has had as many streams as one can have.
func (s *Session) Full() bool { return s.next > maxStream-2 }

// Pending is what is to be sent; it is valid until the next call.
func (s *Session) Pending() []byte { return s.out[s.sent:] }

// Sent takes off the beginning of what is pending.
func (s *Session) Sent(n int) {
	s.sent += n
	switch {
	case s.sent == len(s.out):
		s.out, s.sent, s.replies = s.out[:0], 0, 0
	case s.sent >= maxPending:
		s.out, s.sent = s.out[:copy(s.out, s.out[s.sent:])], 0
	}
	if s.waiting && len(s.out)-s.sent < maxPending/2 {
		s.waiting = false
		s.uploads()
	}
}

// Ask queues a request at a place, which must be free. One is sent at once; others wait until it is known how many the
// server allows.
func (s *Session) Ask(place int, r *Request) {
	if !s.settled && s.active > 0 {
		s.queued = append(s.queued, asked{place, r})
		return
	}
	block := r.Later
	switch {
	case s.bare:
		if block = r.Plain; !s.shrunk {
			s.shrunk = true
			block = append([]byte{0x20}, block...) // the table has no room from now on
		}
	case s.next == 1:
		block = r.First
	}
	id := s.next
	s.next += 2
	s.ids[place] = id
	s.active++
	s.streams[place] = stream{head: Head{Length: -1}, bodiless: r.Bodiless, left: window, room: s.initial,
		unsent: r.Body}
	first := block[:min(len(block), maxFrame)]
	rest := block[len(first):]
	s.frame(frameHeaders, flagEndHeaders.when(len(rest) == 0)|flagEndStream.when(len(r.Body) == 0), id, first)
	for len(rest) > 0 {
		n := min(len(rest), maxFrame)
		s.frame(frameContinuation, flagEndHeaders.when(n == len(rest)), id, rest[:n])
		rest = rest[n:]
	}
	s.upload(place)
}

// upload sends as much of a request's body as the server has room for.
func (s *Session) upload(place int) {
	t := &s.streams[place]
	for len(t.unsent) > 0 {
		n := int(min(int64(len(t.unsent)), maxFrame, t.room, s.room))
		if n <= 0 {
			return
		}
		if len(s.out)-s.sent > maxPending {
			s.waiting = true
			return
		}
		s.idle = 0
		t.room, s.room = t.room-int64(n), s.room-int64(n)
		s.frame(frameData, flagEndStream.when(n == len(t.unsent)), s.ids[place], t.unsent[:n])
		t.unsent = t.unsent[n:]
	}
}

// uploads goes on with all bodies.
func (s *Session) uploads() {
	for place, id := range s.ids {
		if id != 0 && len(s.streams[place].unsent) > 0 {
			s.upload(place)
		}
	}
}

// Feed takes the next bytes from the server: whole frames, and of bodies what has come.
func (s *Session) Feed(p []byte) error {
	for {
		if s.inside {
			var err error
			if p, err = s.take(p); err != nil {
				return err
			}
			if s.inside {
				return nil
			}
		}
		frame := p
		if len(s.held) > 0 {
			// A frame that was cut: as much of it as is missing.
			want := headerSize
			if len(s.held) >= headerSize {
				want += length(s.held)
			}
			n := min(len(p), want-len(s.held))
			s.held = append(s.held, p[:n]...)
			p = p[n:]
			if frame = s.held; len(frame) < headerSize {
				return nil
			}
		}
		if len(frame) == 0 {
			return nil
		}
		if len(frame) < headerSize {
			s.held = append(s.held, frame...)
			return nil
		}
		if err := s.check(frame[:headerSize]); err != nil {
			return err
		}
		held := len(s.held) > 0
		n := headerSize
		if kind(frame[3]) != frameData {
			n += length(frame)
		}
		if len(frame) < n {
			if !held {
				s.held = append(s.held, frame...)
				return nil
			}
			if len(p) == 0 {
				return nil
			}
			continue
		}
		if !held {
			p = p[n:]
		}
		s.held = s.held[:0]
		if err := s.read(frame[:n]); err != nil {
			return err
		}
	}
}

func length(frame []byte) int { return int(frame[0])<<16 | int(frame[1])<<8 | int(frame[2]) }

// check looks at the header of a frame before its payload is waited for.
func (s *Session) check(h []byte) error {
	k := kind(h[3])
	switch {
	case !s.settled && bytes.HasPrefix(h, []byte("HTTP/1.")):
		return errors.New("the server answers by HTTP/1: it does not speak HTTP/2 here")
	case !s.settled && (k != frameSettings || flags(h[4]).has(flagAck) || length(h) > maxFrame):
		return fmt.Errorf("this is not HTTP/2: it begins with %q", h)
	case length(h) > maxFrame:
		return fmt.Errorf("the server sends a frame of %d bytes, and at most %d were allowed to it", length(h),
			maxFrame)
	case s.of != 0 && k != frameContinuation:
		return fmt.Errorf("a frame %v comes in the middle of a header", k)
	}
	return nil
}

// read reads a whole frame, or the header of a DATA frame.
func (s *Session) read(frame []byte) error {
	k, f, payload := kind(frame[3]), flags(frame[4]), frame[headerSize:]
	id := binary.BigEndian.Uint32(frame[5:]) & maxStream
	switch k {
	case frameData:
		return s.begin(length(frame), f, id)
	case frameHeaders:
		p, err := unpadded(payload, f)
		if err != nil {
			return err
		}
		return s.header(p, f, id, f.has(flagEndStream))
	case frameContinuation:
		if s.of == 0 || s.of != id {
			return errors.New("the server continues a header that it did not begin")
		}
		return s.header(payload, f, id, s.last)
	}
	if s.idle++; s.idle > maxIdle {
		return fmt.Errorf("the server sends %d frames in a row, the last of them %v, that bring no response on", s.idle,
			k)
	}
	return s.control(k, f, id, payload)
}

// unpadded is the payload of HEADERS without padding and priority.
func unpadded(p []byte, f flags) ([]byte, error) {
	pad := 0
	if f.has(flagPadded) && len(p) > 0 {
		pad, p = int(p[0]), p[1:]
	}
	if f.has(flagPriority) {
		if len(p) < prioritySize {
			return nil, errors.New("a header is shorter than its priority")
		}
		p = p[prioritySize:]
	}
	if pad > len(p) {
		return nil, errors.New("a header is shorter than its padding")
	}
	return p[:len(p)-pad], nil
}

// find is the place of a stream.
func (s *Session) find(id uint32, what string) (int, error) {
	if id != 0 {
		for place, of := range s.ids {
			if of == id {
				return place, nil
			}
		}
	}
	if id&1 == 0 || id >= s.next {
		return 0, fmt.Errorf("the server sends %s of the stream %d, which was not asked for", what, id)
	}
	return 0, fmt.Errorf("the server sends %s of the stream %d after its end", what, id)
}

// begin begins a DATA frame.
func (s *Session) begin(size int, f flags, id uint32) error {
	place, err := s.find(id, "a body")
	if err != nil {
		return err
	}
	t := &s.streams[place]
	switch {
	case !t.headed:
		return errors.New("a body comes before the response's header")
	case size > t.left || size > s.left:
		return errors.New("the server sends more than its window has room for")
	}
	s.left, s.spent = s.left-size, s.spent+size
	t.left, t.spent = t.left-size, t.spent+size
	s.inside, s.at, s.data, s.pad, s.ends = true, place, size, 0, f.has(flagEndStream)
	if f.has(flagPadded) {
		if s.pad = -1; size == 0 {
			return errors.New("a part of a body is shorter than its padding")
		}
	}
	if s.idle++; s.idle > maxIdle {
		return fmt.Errorf("the server sends %d frames in a row that bring no response on", s.idle)
	}
	return nil
}

// take takes what has come of a DATA frame, and returns what comes after it.
func (s *Session) take(p []byte) ([]byte, error) {
	if s.pad < 0 {
		if len(p) == 0 {
			return p, nil
		}
		s.pad, p, s.data = int(p[0]), p[1:], s.data-1
		if s.pad > s.data {
			return p, errors.New("a part of a body is shorter than its padding")
		}
	}
	t := &s.streams[s.at]
	if n := min(len(p), s.data-s.pad); n > 0 {
		s.idle = 0
		t.body += int64(n)
		switch {
		case t.bodiless || t.head.Status == 204 || t.head.Status == 304:
			return p, fmt.Errorf("the response has a body, and must not have one: its status is %d", t.head.Status)
		case t.head.Length >= 0 && t.body > t.head.Length:
			return p, fmt.Errorf("the body is longer than the %d bytes that its header announces", t.head.Length)
		}
		if err := s.client.Data(s.at, p[:n]); err != nil {
			return p, err
		}
		p, s.data = p[n:], s.data-n
	}
	if s.data <= s.pad {
		n := min(len(p), s.data)
		p, s.data = p[n:], s.data-n
		s.pad = s.data
	}
	if s.data > 0 {
		return p, nil
	}
	s.inside = false
	if s.spent >= window/2 {
		s.number(frameWindow, 0, uint32(s.spent))
		s.left, s.spent = s.left+s.spent, 0
	}
	if s.ends {
		return p, s.end(s.at)
	}
	if t.spent >= window/2 {
		s.number(frameWindow, s.ids[s.at], uint32(t.spent))
		t.left, t.spent = t.left+t.spent, 0
	}
	return p, nil
}

// end is the end of a response.
func (s *Session) end(place int) error {
	t := &s.streams[place]
	if t.head.Length >= 0 && t.body != t.head.Length && !t.bodiless && t.head.Status != 304 {
		return fmt.Errorf("the server ended the response after %d of %d bytes of the body", t.body, t.head.Length)
	}
	if len(t.unsent) > 0 {
		// The rest of the request is not wanted any more.
		s.number(frameReset, s.ids[place], uint32(codeCancel))
		t.unsent = nil
	}
	s.ids[place] = 0
	s.active--
	return s.client.Done(place)
}
