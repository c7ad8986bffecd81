package http2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// told writes down what a session tells.
type told struct {
	session *Session
	request *Request
	again   int // requests that follow
	log     []string
	bodies  map[int]int
	allowed uint32
}

func (c *told) Allows(n uint32) error {
	if c.allowed = n; n == 0 {
		return errors.New("none")
	}
	return nil
}

func (c *told) Field(place int, name, value string) {
	c.log = append(c.log, fmt.Sprintf("%d field %s=%s", place, name, value))
}

func (c *told) Head(place int, h *Head) error {
	c.log = append(c.log, fmt.Sprintf("%d head %d %d %s", place, h.Status, h.Length, h.Location))
	return nil
}

func (c *told) Data(place int, p []byte) error {
	c.bodies[place] += len(p)
	return nil
}

func (c *told) Done(place int) error {
	c.log = append(c.log, fmt.Sprintf("%d done %d", place, c.bodies[place]))
	c.bodies[place] = 0
	if c.again > 0 {
		c.again--
		c.session.Ask(place, c.request)
	}
	return nil
}

func (c *told) Leaves() { c.log = append(c.log, "leaves") }

func (c *told) Unasked(place int) error {
	c.log = append(c.log, fmt.Sprintf("%d unasked", place))
	return nil
}

// talk makes a session that has asked for so many responses.
func talk(places int, m *Memo) *told {
	c := &told{bodies: map[int]int{}}
	c.request = NewRequest("GET", "http", "x", "/", nil, nil)
	c.session = NewSession(c, places, m)
	for place := range places {
		c.session.Ask(place, c.request)
	}
	return c
}

// answer is the bytes that a server writes.
func answer(write func(f *xhttp2.Framer, header func(fields ...string) []byte)) []byte {
	var b, block bytes.Buffer
	f := xhttp2.NewFramer(&b, nil)
	e := hpack.NewEncoder(&block)
	f.WriteSettings()
	write(f, func(fields ...string) []byte {
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		return bytes.Clone(block.Bytes())
	})
	return b.Bytes()
}

// TestRequests are understood as they were meant, by a server that keeps a table of fields and by one that does not.
func TestRequests(t *testing.T) {
	for name, more := range map[string][]Field{
		"few": {{Name: "user-agent", Value: "tare"}, {Name: "content-length", Value: "3"},
			{Name: "x-odd", Value: "\t "}},
		"many": {{Name: "cookie", Value: strings.Repeat("c", 9000)}, {Name: "content-type", Value: "text/plain"}},
	} {
		a := NewRequest("PUT", "https", "shop.example", "/a?b=c", more, []byte("abc"))
		b := NewRequest("GET", "https", "shop.example", "/", more, nil)
		want := func(method, path string) string {
			s := "[:method=" + method + " :scheme=https :authority=shop.example :path=" + path
			for _, f := range more {
				s += " " + f.Name + "=" + f.Value
			}
			return s + "]"
		}
		for form, blocks := range map[string][][]byte{"table": {a.First, b.Later, a.Later, b.Later},
			"other": {b.First, b.Later, a.Later, b.Later}, "plain": {a.Plain, b.Plain, a.Plain, b.Plain}} {
			size := uint32(tableSize)
			if form == "plain" {
				size = 0
			}
			d := hpack.NewDecoder(size, nil)
			for i, block := range blocks {
				fields, err := d.DecodeFull(block)
				if err != nil {
					t.Fatalf("%s, %s, request %d: %v", name, form, i, err)
				}
				var said []string
				for _, f := range fields {
					said = append(said, f.Name+"="+f.Value)
				}
				meant := want("GET", "/")
				if i == 2 || i == 0 && form != "other" {
					meant = want("PUT", "/a?b=c")
				}
				if got := fmt.Sprint(said); got != meant {
					t.Errorf("%s, %s, request %d: %.300s, want %.300s", name, form, i, got, meant)
				}
			}
		}
		if name == "few" && len(b.Later) >= len(b.First)/2 {
			t.Errorf("the table saves nothing: %d bytes, then %d", len(b.First), len(b.Later))
		}
	}
}

// TestKnownHeaders: a server that refers to what it sent long before is understood, although most of its headers are
// known and not decoded; and so is one that never refers to anything.
func TestKnownHeaders(t *testing.T) {
	m := NewMemo()
	for round := range 3 {
		c := talk(1, m)
		c.again = 1000
		var want []string
		// A block that puts a field into the table by itself, as nginx does for each response.
		raw := func(name, value string) []byte {
			b := append([]byte{0x40, byte(len(name))}, name...)
			return append(append(b, byte(len(value))), value...)
		}
		table := []string{}
		p := answer(func(f *xhttp2.Framer, _ func(...string) []byte) {
			for i := range 1000 {
				block := []byte{0x88} // :status 200
				switch {
				case i%100 == 99 && len(table) > 1:
					block = append(block, 0x80|62+1) // the field before the last one
					want = append(want, "0 head 200 -1 "+table[len(table)-2])
				default:
					table = append(table, fmt.Sprintf("/%d", i%7))
					block = append(block, raw("location", table[len(table)-1])...)
					want = append(want, "0 head 200 -1 "+table[len(table)-1])
				}
				f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block,
					EndHeaders: true, EndStream: true})
				want = append(want, "0 done 0")
			}
		})
		if err := c.session.Feed(p); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if !slices.Equal(c.log, want) {
			t.Fatalf("round %d: the headers are not what was sent", round)
		}
	}
}

// TestPieces: it does not matter in which pieces the bytes come.
func TestPieces(t *testing.T) {
	p := answer(func(f *xhttp2.Framer, header func(...string) []byte) {
		f.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: 7})
		f.WriteSettingsAck()
		early := header(":status", "103", "link", "x")
		f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 3, BlockFragment: early, EndHeaders: true})
		block := header(":status", "200", "content-length", "2000", "date", "today")
		f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 3, BlockFragment: block[:3], PadLength: 7,
			Priority: xhttp2.PriorityParam{Weight: 3}})
		f.WriteContinuation(3, false, block[3:5])
		f.WriteContinuation(3, true, block[5:])
		f.WriteDataPadded(3, false, make([]byte, 999), make([]byte, 200))
		f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: header(":status", "302", "location", "/a"),
			EndHeaders: true, EndStream: true})
		f.WritePing(false, [8]byte{1})
		f.WriteData(3, false, nil)
		f.WriteDataPadded(3, true, make([]byte, 1001), []byte{})
		f.WriteRawFrame(0x77, 3, 5, []byte("unknown"))
		f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 5, BlockFragment: header(":status", "200"), EndHeaders: true})
		f.WriteData(5, false, []byte("abc"))
		f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 5, BlockFragment: header("x-sum", "1"), EndHeaders: true,
			EndStream: true})
		f.WriteGoAway(5, xhttp2.ErrCodeNo, nil)
	})
	want := []string{"1 head 200 2000 ", "0 head 302 -1 /a", "0 done 0", "1 done 2000", "2 head 200 -1 ", "2 done 3",
		"leaves", "3 unasked"}
	for _, step := range []int{1, 2, 3, 5, 8, 9, 10, 100, len(p)} {
		c := talk(4, NewMemo())
		for piece := range slices.Chunk(p, step) {
			if err := c.session.Feed(piece); err != nil {
				t.Fatalf("%d bytes at a time: %v", step, err)
			}
		}
		if !slices.Equal(c.log, want) || c.allowed != 7 || c.session.Active() != 0 {
			t.Errorf("%d bytes at a time: %q", step, c.log)
		}
	}
}

// TestWindows: a body larger than all windows comes through, and a request's body waits for room.
func TestWindows(t *testing.T) {
	c := talk(1, NewMemo())
	part := make([]byte, maxFrame)
	p := answer(func(f *xhttp2.Framer, header func(...string) []byte) {
		f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: header(":status", "200"), EndHeaders: true})
	})
	err := c.session.Feed(p)
	data := append([]byte{0, 0x40, 0, 0, 0, 0, 0, 0, 1}, part...)
	c.session.Sent(len(c.session.Pending()))
	widened := 0
	for n := 0; n < 3<<30 && err == nil; n += len(part) {
		err = c.session.Feed(data)
		widened += len(c.session.Pending())
		c.session.Sent(len(c.session.Pending()))
	}
	if err != nil || c.bodies[0] != 3<<30 || widened == 0 || widened > 200 {
		t.Errorf("%d bytes came, and %d were answered: %v", c.bodies[0], widened, err)
	}
	c = talk(0, nil)
	c.session = NewSession(c, 2, nil)
	body := bytes.Repeat([]byte("x"), 100000)
	c.session.Ask(0, NewRequest("POST", "http", "x", "/", nil, body))
	sent := func() int {
		n := bytes.Count(c.session.Pending(), []byte("x"))
		c.session.Sent(len(c.session.Pending()))
		return n
	}
	sent()
	if !c.session.Uploads(0) {
		t.Error("all of the body was sent")
	}
	more := answer(func(f *xhttp2.Framer, _ func(...string) []byte) { f.WriteWindowUpdate(0, 100000) })
	if err := c.session.Feed(more); err != nil || sent() != 0 {
		t.Errorf("more of the body was sent than the stream has room for: %v", err)
	}
	more = answer(func(f *xhttp2.Framer, _ func(...string) []byte) { f.WriteWindowUpdate(1, 10) })[headerSize:]
	if err := c.session.Feed(more); err != nil || sent() != 10 {
		t.Error("the body is not sent as far as there is room")
	}
	more = answer(func(f *xhttp2.Framer, _ func(...string) []byte) {
		f.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 1 << 20})
	})
	if err := c.session.Feed(more); err != nil || sent() != len(body)-outside-10 || c.session.Uploads(0) {
		t.Error("the rest of the body is not sent")
	}
}

// TestLargeRequest: a header larger than a frame.
func TestLargeRequest(t *testing.T) {
	c := talk(0, nil)
	c.session = NewSession(c, 1, nil)
	c.session.Ask(0, NewRequest("GET", "http", "x", "/",
		[]Field{{Name: "x-long", Value: strings.Repeat("~", 20000)}}, nil))
	in := bytes.NewReader(c.session.Pending()[len(xhttp2.ClientPreface):])
	f := xhttp2.NewFramer(nil, in)
	f.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := frame.(*xhttp2.MetaHeadersFrame); ok {
			if len(h.Fields) != 5 || !h.StreamEnded() || h.Fields[4].Size() < 20000 {
				t.Errorf("%d fields", len(h.Fields))
			}
			return
		}
	}
}

// TestControl: a frame that is no part of a response is answered if it is as it must be, and else an error that names
// it.
func TestControl(t *testing.T) {
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	set := func(id uint16, v uint32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(nil, id), v)
	}
	for name, c := range map[string]struct {
		kind    xhttp2.FrameType
		flags   xhttp2.Flags
		id      uint32
		payload []byte
		want    string
	}{
		"settings":             {xhttp2.FrameSettings, 0, 0, set(4, 1<<31-1), ""},
		"settings of a stream": {xhttp2.FrameSettings, 0, 1, nil, "SETTINGS that is not valid"},
		"settings cut":         {xhttp2.FrameSettings, 0, 0, set(1, 1)[:5], "SETTINGS that is not valid"},
		"settings taken":       {xhttp2.FrameSettings, 1, 0, nil, ""},
		"settings taken, more": {xhttp2.FrameSettings, 1, 0, set(1, 1), "SETTINGS that is not valid"},
		"a large window":       {xhttp2.FrameSettings, 0, 0, set(4, 1<<31), "INITIAL_WINDOW_SIZE is 2147483648"},
		"small frames":         {xhttp2.FrameSettings, 0, 0, set(5, 16383), "MAX_FRAME_SIZE is 16383"},
		"large frames":         {xhttp2.FrameSettings, 0, 0, set(5, 1<<24), "MAX_FRAME_SIZE is 16777216"},
		"push":                 {xhttp2.FrameSettings, 0, 0, set(2, 2), "ENABLE_PUSH is 2"},
		"connect":              {xhttp2.FrameSettings, 0, 0, set(8, 2), "ENABLE_CONNECT_PROTOCOL is 2"},
		"an unknown setting":   {xhttp2.FrameSettings, 0, 0, set(99, 1<<31), ""},
		"ping":                 {xhttp2.FramePing, 0, 0, make([]byte, 8), ""},
		"pong":                 {xhttp2.FramePing, 1, 0, make([]byte, 8), ""},
		"ping of a stream":     {xhttp2.FramePing, 0, 1, make([]byte, 8), "PING that is not valid"},
		"ping cut":             {xhttp2.FramePing, 0, 0, make([]byte, 7), "PING that is not valid"},
		"room":                 {xhttp2.FrameWindowUpdate, 0, 1, number(1<<31 | 1), ""},
		"no room":              {xhttp2.FrameWindowUpdate, 0, 1, number(1 << 31), "WINDOW_UPDATE that is not valid"},
		"no room at all":       {xhttp2.FrameWindowUpdate, 0, 0, number(0), "WINDOW_UPDATE that is not valid"},
		"room cut":             {xhttp2.FrameWindowUpdate, 0, 0, number(1)[:3], "WINDOW_UPDATE that is not valid"},
		"reset":                {xhttp2.FrameRSTStream, 0, 1, number(13), "reset the stream: HTTP_1_1_REQUIRED"},
		"reset, why?":          {xhttp2.FrameRSTStream, 0, 1, number(14), "reset the stream: the unknown code 14"},
		"reset of all":         {xhttp2.FrameRSTStream, 0, 0, number(0), "RST_STREAM that is not valid"},
		"reset cut":            {xhttp2.FrameRSTStream, 0, 1, number(0)[:3], "RST_STREAM that is not valid"},
		"priority":             {xhttp2.FramePriority, 0, 1, make([]byte, 5), ""},
		"priority of all":      {xhttp2.FramePriority, 0, 0, make([]byte, 5), "PRIORITY that is not valid"},
		"priority cut":         {xhttp2.FramePriority, 0, 1, make([]byte, 4), "PRIORITY that is not valid"},
		"leaving":              {xhttp2.FrameGoAway, 0, 0, append(number(1), number(0)...), ""},
		"leaving, why":         {xhttp2.FrameGoAway, 0, 0, append(number(1), 0, 0, 0, 2, 'x'), `INTERNAL_ERROR, "x"`},
		"leaving cut":          {xhttp2.FrameGoAway, 0, 0, make([]byte, 7), "GOAWAY that is not valid"},
		"leaving a stream":     {xhttp2.FrameGoAway, 0, 1, make([]byte, 8), "GOAWAY that is not valid"},
		"push promised":        {xhttp2.FramePushPromise, 4, 1, number(2), "pushes a response"},
		"unknown":              {0x77, 3, 5, []byte("unknown"), ""},
	} {
		p := answer(func(f *xhttp2.Framer, _ func(...string) []byte) {
			f.WriteRawFrame(c.kind, c.flags, c.id, c.payload)
		})
		err := talk(1, NewMemo()).session.Feed(p)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestSent: what a session sends is what the library of golang.org/x/net reads.
func TestSent(t *testing.T) {
	c := talk(1, NewMemo())
	if err := c.session.Feed(answer(func(f *xhttp2.Framer, header func(...string) []byte) {
		f.WritePing(false, [8]byte{1, 2, 3})
		f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: header(":status", "200"), EndHeaders: true,
			EndStream: true})
	})); err != nil {
		t.Fatal(err)
	}
	c.session.Ask(0, NewRequest("POST", "http", "x", "/", nil, []byte("body")))
	rest, ok := bytes.CutPrefix(c.session.Pending(), []byte(xhttp2.ClientPreface))
	if !ok {
		t.Fatalf("it begins with %q", c.session.Pending())
	}
	f := xhttp2.NewFramer(nil, bytes.NewReader(rest))
	f.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	var got []string
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
		h := frame.Header()
		got = append(got, fmt.Sprintf("%v %d %d", h.Type, h.StreamID, h.Flags))
		switch f := frame.(type) {
		case *xhttp2.SettingsFrame:
			f.ForeachSetting(func(s xhttp2.Setting) error { got = append(got, s.String()); return nil })
		case *xhttp2.WindowUpdateFrame:
			got = append(got, fmt.Sprint(f.Increment))
		case *xhttp2.PingFrame:
			got = append(got, fmt.Sprint(f.Data))
		case *xhttp2.MetaHeadersFrame:
			got = append(got, f.PseudoValue("method"))
		case *xhttp2.DataFrame:
			got = append(got, string(f.Data()))
		}
	}
	want := []string{"SETTINGS 0 0", "[ENABLE_PUSH = 0]", "[INITIAL_WINDOW_SIZE = 1073741824]",
		"[MAX_HEADER_LIST_SIZE = 65536]", "WINDOW_UPDATE 0 0", fmt.Sprint(window - outside),
		"HEADERS 1 5", "GET", "SETTINGS 0 1", "PING 0 1", "[1 2 3 0 0 0 0 0]", "HEADERS 3 4", "POST", "DATA 3 1",
		"body"}
	if !slices.Equal(got, want) {
		t.Errorf("it sends %q, want %q", got, want)
	}
}

// FuzzFeed: whatever comes, in whatever pieces, nothing panics, little is answered, and the pieces do not matter.
func FuzzFeed(f *testing.F) {
	f.Add(answer(func(f *xhttp2.Framer, header func(...string) []byte) {
		f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, EndHeaders: true,
			BlockFragment: header(":status", "200", "content-length", "3")})
		f.WriteData(1, true, []byte("abc"))
		f.WritePing(false, [8]byte{})
		f.WriteWindowUpdate(0, 5)
		f.WriteRSTStream(3, xhttp2.ErrCodeRefusedStream)
	}), byte(3))
	f.Add(answer(func(f *xhttp2.Framer, header func(...string) []byte) {
		f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 3, BlockFragment: header(":status", "302"), PadLength: 3})
		f.WriteContinuation(3, true, header("location", "/x"))
		f.WriteDataPadded(3, true, []byte("abc"), []byte{0, 0})
		f.WriteGoAway(1, xhttp2.ErrCodeNo, []byte("bye"))
		f.WriteGoAway(1, xhttp2.ErrCodeEnhanceYourCalm, []byte("bye"))
	}), byte(1))
	f.Fuzz(func(t *testing.T, p []byte, step byte) {
		whole, pieces := talk(3, NewMemo()), talk(3, NewMemo())
		err := whole.session.Feed(p)
		var err2 error
		for piece := range slices.Chunk(p, int(step)+1) {
			if err2 = pieces.session.Feed(piece); err2 != nil {
				break
			}
		}
		if fmt.Sprint(err) != fmt.Sprint(err2) || !slices.Equal(whole.log, pieces.log) {
			t.Fatalf("at once: %v, %q; in pieces: %v, %q", err, whole.log, err2, pieces.log)
		}
		if n := len(whole.session.Pending()); n > 4*len(p)+4096 {
			t.Fatalf("%d bytes are answered by %d", len(p), n)
		}
	})
}

// FuzzIndependent: a block that is called independent says the same to a decoder that was told of others before.
func FuzzIndependent(f *testing.F) {
	f.Add([]byte{0x88, 0x0f, 0x0d, 0x01, '3'})
	f.Add([]byte{0x88, 0x40, 0x01, 'a', 0x01, 'b', 0x76, 0x01, 'c', 0x61, 0x81, 0x1f})
	f.Add([]byte{0x20, 0xbe})
	f.Fuzz(func(t *testing.T, p []byte) {
		ok, inserts := independent(p)
		if !ok {
			return
		}
		fresh := hpack.NewDecoder(tableSize, nil)
		told := hpack.NewDecoder(tableSize, nil)
		for i := range 5 {
			if _, err := told.DecodeFull(append([]byte{0x40, 1, 'x', 1}, byte('0'+i))); err != nil {
				t.Fatal(err)
			}
		}
		a, err := fresh.DecodeFull(p)
		b, err2 := told.DecodeFull(p)
		if fmt.Sprint(a, err) != fmt.Sprint(b, err2) {
			t.Fatalf("%v, %v; after others %v, %v", a, err, b, err2)
		}
		if err != nil || inserts || len(p) == 0 {
			return
		}
		// The table is as it was: its last field is the same.
		if last, err := told.DecodeFull([]byte{0x80 | 62}); err != nil || last[0].Value != "4" {
			t.Fatalf("it puts fields into the table: %v, %v", last, err)
		}
	})
}
