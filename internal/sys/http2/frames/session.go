// Package frames speaks HTTP/2 (RFC 9113) as a client, by the frames and the header compression of golang.org/x/net. A
// session has no socket and no goroutine: it is fed with what has come and says what is to be sent, so that a loop
// over many connections can drive it.
//
// The frames of responses, HEADERS and DATA, are taken apart here, because a load must not allocate for each of them;
// bodies are passed on without a copy. All others are read, and all are written, by the library's Framer.
package frames

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"tare/internal/sys/http2"
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

// Library is golang.org/x/net/http2.
type Library struct{}

// Session makes a session with places for streams.
func (Library) Session(c http2.Client, places int, m http2.Memo) http2.Session {
	s := &session{client: c, ids: make([]uint32, places), streams: make([]stream, places)}
	s.memo, _ = m.(*memo)
	s.framer = xhttp2.NewFramer((*outlet)(s), &s.in)
	s.decoder = hpack.NewDecoder(tableSize, s.field)
	s.decoder.SetMaxStringLength(maxHead)
	s.Reset()
	return s
}

// stream is a request on its way.
type stream struct {
	head     http2.Head
	headed   bool // its header has come
	bodiless bool
	body     int64
	heads    int    // bytes of its headers
	spent    int    // of its window since the server was last told
	left     int    // of its window
	room     int64  // for the request's body
	unsent   []byte // of the request's body
}

type session struct {
	client  http2.Client
	memo    *memo
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

	framer  *xhttp2.Framer
	in      bytes.Reader
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
	got     http2.Head
	heads   int // bytes of the block, decoded
	place   int // whose block it is
	broken  error
}

// asked is a request that waits for the server's settings.
type asked struct {
	place   int
	request *http2.Request
}

// outlet collects what the framer writes.
type outlet session

func (o *outlet) Write(p []byte) (int, error) {
	o.out = append(o.out, p...)
	return len(p), nil
}

func (s *session) Reset() {
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
	s.out = append(s.out, xhttp2.ClientPreface...)
	// Writing to memory does not fail.
	_ = s.framer.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingEnablePush, Val: 0},
		xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: window},
		xhttp2.Setting{ID: xhttp2.SettingMaxHeaderListSize, Val: maxHead})
	_ = s.framer.WriteWindowUpdate(0, window-outside)
}

func (s *session) Active() int { return s.active + len(s.queued) }

func (s *session) Asked(place int) bool {
	return s.ids[place] != 0 || slices.ContainsFunc(s.queued, func(a asked) bool { return a.place == place })
}

func (s *session) Uploads(place int) bool {
	return s.ids[place] != 0 && len(s.streams[place].unsent) > 0
}

func (s *session) Full() bool { return s.next > maxStream-2 }

func (s *session) Pending() []byte { return s.out[s.sent:] }

func (s *session) Sent(n int) {
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

// Ask sends one request at once; others wait until it is known how many the server allows.
func (s *session) Ask(place int, r *http2.Request) {
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
	s.streams[place] = stream{head: http2.Head{Length: -1}, bodiless: r.Bodiless, left: window, room: s.initial,
		unsent: r.Body}
	first := block[:min(len(block), maxFrame)]
	rest := block[len(first):]
	_ = s.framer.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndHeaders: len(rest) == 0,
		EndStream: len(r.Body) == 0})
	for len(rest) > 0 {
		n := min(len(rest), maxFrame)
		_ = s.framer.WriteContinuation(id, n == len(rest), rest[:n])
		rest = rest[n:]
	}
	s.upload(place)
}

// upload sends as much of a request's body as the server has room for.
func (s *session) upload(place int) {
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
		_ = s.framer.WriteData(s.ids[place], n == len(t.unsent), t.unsent[:n])
		t.unsent = t.unsent[n:]
	}
}

// uploads goes on with all bodies.
func (s *session) uploads() {
	for place, id := range s.ids {
		if id != 0 && len(s.streams[place].unsent) > 0 {
			s.upload(place)
		}
	}
}

// Feed takes whole frames, and of bodies what has come.
func (s *session) Feed(p []byte) error {
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
		if frame[3] != byte(xhttp2.FrameData) {
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
func (s *session) check(h []byte) error {
	kind := xhttp2.FrameType(h[3])
	switch {
	case !s.settled && bytes.HasPrefix(h, []byte("HTTP/1.")):
		return errors.New("the server answers by HTTP/1: it does not speak HTTP/2 here")
	case !s.settled && (kind != xhttp2.FrameSettings || h[4]&1 != 0 || length(h) > maxFrame):
		return fmt.Errorf("this is not HTTP/2: it begins with %q", h)
	case length(h) > maxFrame:
		return fmt.Errorf("the server sends a frame of %d bytes, and at most %d were allowed to it", length(h),
			maxFrame)
	case s.of != 0 && kind != xhttp2.FrameContinuation:
		return fmt.Errorf("a frame %v comes in the middle of a header", kind)
	}
	return nil
}

// read reads a whole frame, or the header of a DATA frame.
func (s *session) read(f []byte) error {
	kind, flags := xhttp2.FrameType(f[3]), xhttp2.Flags(f[4])
	id := binary.BigEndian.Uint32(f[5:]) & maxStream
	switch kind {
	case xhttp2.FrameData:
		return s.begin(length(f), flags, id)
	case xhttp2.FrameHeaders:
		p, err := unpadded(f[headerSize:], flags)
		if err != nil {
			return err
		}
		return s.header(p, flags, id, flags.Has(xhttp2.FlagHeadersEndStream))
	case xhttp2.FrameContinuation:
		if s.of == 0 || s.of != id {
			return errors.New("the server continues a header that it did not begin")
		}
		return s.header(f[headerSize:], flags, id, s.last)
	}
	if s.idle++; s.idle > maxIdle {
		return fmt.Errorf("the server sends %d frames in a row, the last of them %v, that bring no response on", s.idle,
			kind)
	}
	s.in.Reset(f)
	frame, err := s.framer.ReadFrame()
	if err != nil {
		return fmt.Errorf("the server sends a frame %v that is not valid: %w", kind, err)
	}
	return s.control(frame, id)
}

// unpadded is the payload of HEADERS without padding and priority.
func unpadded(p []byte, flags xhttp2.Flags) ([]byte, error) {
	pad := 0
	if flags.Has(xhttp2.FlagHeadersPadded) && len(p) > 0 {
		pad, p = int(p[0]), p[1:]
	}
	if flags.Has(xhttp2.FlagHeadersPriority) {
		if len(p) < 5 {
			return nil, errors.New("a header is shorter than its priority")
		}
		p = p[5:]
	}
	if pad > len(p) {
		return nil, errors.New("a header is shorter than its padding")
	}
	return p[:len(p)-pad], nil
}

// find is the place of a stream.
func (s *session) find(id uint32, what string) (int, error) {
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
func (s *session) begin(size int, flags xhttp2.Flags, id uint32) error {
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
	s.inside, s.at, s.data, s.pad, s.ends = true, place, size, 0, flags.Has(xhttp2.FlagDataEndStream)
	if flags.Has(xhttp2.FlagDataPadded) {
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
func (s *session) take(p []byte) ([]byte, error) {
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
		_ = s.framer.WriteWindowUpdate(0, uint32(s.spent))
		s.left, s.spent = s.left+s.spent, 0
	}
	if s.ends {
		return p, s.end(s.at)
	}
	if t.spent >= window/2 {
		_ = s.framer.WriteWindowUpdate(s.ids[s.at], uint32(t.spent))
		t.left, t.spent = t.left+t.spent, 0
	}
	return p, nil
}

// end is the end of a response.
func (s *session) end(place int) error {
	t := &s.streams[place]
	if t.head.Length >= 0 && t.body != t.head.Length && !t.bodiless && t.head.Status != 304 {
		return fmt.Errorf("the server ended the response after %d of %d bytes of the body", t.body, t.head.Length)
	}
	if len(t.unsent) > 0 {
		// The rest of the request is not wanted any more.
		_ = s.framer.WriteRSTStream(s.ids[place], xhttp2.ErrCodeCancel)
		t.unsent = nil
	}
	s.ids[place] = 0
	s.active--
	return s.client.Done(place)
}
