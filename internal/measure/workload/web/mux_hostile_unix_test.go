//go:build unix

package web

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is the server's end of a connection, in the hands of a test.
type peer struct {
	net.Conn
	*xhttp2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
	id    uint32 // the stream that is asked for
}

// head sends a header of fields.
func (p *peer) head(last bool, fields ...string) {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	p.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: p.id, BlockFragment: p.block.Bytes(), EndHeaders: true,
		EndStream: last})
}

// hello sends the good response.
func (p *peer) hello() {
	p.head(false, ":status", "200", "content-length", "5")
	p.WriteData(p.id, true, []byte("hello"))
}

// drain reads until the client closes.
func (p *peer) drain() { io.Copy(io.Discard, p.Conn) }

// serve2 answers each request over HTTP/2 by do, until the test ends. Settings are what the server begins with.
func serve2(t *testing.T, settings []xhttp2.Setting, do func(p *peer, request int)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for connection := 0; ; connection++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := io.ReadFull(c, make([]byte, len(xhttp2.ClientPreface))); err != nil {
					return
				}
				p := &peer{Conn: c, Framer: xhttp2.NewFramer(c, c)}
				p.enc = hpack.NewEncoder(&p.block)
				p.WriteSettings(settings...)
				for request := 0; ; {
					f, err := p.ReadFrame()
					if err != nil {
						return
					}
					h, ok := f.(*xhttp2.HeadersFrame)
					if !ok {
						continue
					}
					p.id = h.StreamID
					do(p, request+connection) // the first connection is that of the look at the page
					request++
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

// TestBadHTTP2: whatever a server does, to its first response or to a later one, a load ends with an error that says
// so, and soon.
func TestBadHTTP2(t *testing.T) {
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		do    func(p *peer)
		given map[string]string
		want  string
	}{
		"another length": {func(p *peer) { p.head(false, ":status", "200"); p.WriteData(p.id, true, []byte("hello!")) },
			nil, "longer than the first one's 5 bytes"},
		"a body without an end": {func(p *peer) {
			p.head(false, ":status", "200")
			for p.WriteData(p.id, false, make([]byte, 16<<10)) == nil {
			}
		}, map[string]string{"timeout": "2s"}, "longer than"},
		"a short body": {func(p *peer) {
			p.head(false, ":status", "200", "content-length", "5")
			p.WriteData(p.id, true, []byte("hel"))
		}, nil, "after 3 of 5 bytes"},
		"a long body": {func(p *peer) {
			p.head(false, ":status", "200", "content-length", "5")
			p.WriteData(p.id, true, []byte("hello!"))
		}, nil, "longer than the 5 bytes that its header announces"},
		"two lengths": {func(p *peer) { p.head(true, ":status", "200", "content-length", "5", "content-length", "6") },
			nil, "two lengths"},
		"an error": {func(p *peer) {
			p.head(false, ":status", "500", "content-length", "5")
			p.WriteData(p.id, true, []byte("hello"))
		}, nil, "answers 500 instead of 200"},
		"a redirect": {func(p *peer) { p.head(true, ":status", "302", "location", "/login\x1b[2J") }, nil,
			"302, a redirect to /login"},
		"a redirect to itself": {func(p *peer) { p.head(true, ":status", "302", "location", "/") },
			map[string]string{"redirects": "follow"}, "go round in a loop"},
		"a redirect too far": {func(p *peer) { p.head(true, ":status", "302", "location", strings.Repeat("/x", 1500)) },
			nil, "longer than 2 KiB"},
		"no status":      {func(p *peer) { p.head(true, "content-length", "5") }, nil, "no status"},
		"a wrong status": {func(p *peer) { p.head(true, ":status", "2x0") }, nil, `the invalid status "2x0"`},
		"another protocol": {func(p *peer) { p.head(false, ":status", "101") }, nil,
			"switches to another protocol"},
		"interim and no more": {func(p *peer) { p.head(true, ":status", "103") }, nil, "interim status 103"},
		"endless interims": {func(p *peer) {
			for range 1 << 20 {
				p.head(false, ":status", "103", "link", "x")
			}
		}, nil, "larger than 64 KiB"},
		"endless headers": {func(p *peer) {
			p.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: p.id, BlockFragment: []byte{0x88}})
			for p.WriteContinuation(p.id, false, bytes.Repeat([]byte{0, 1, 'x', 1, 'y'}, 1000)) == nil {
			}
		}, nil, "larger than 64 KiB"},
		"endless empty headers": {func(p *peer) {
			p.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: p.id, BlockFragment: []byte{0x88}})
			for p.WriteContinuation(p.id, false, nil) == nil {
			}
		}, nil, "larger than 64 KiB"},
		"a small header that becomes large": {func(p *peer) {
			block := append([]byte{0x88, 0x40, 1, 'x', 0x7f, 0x81, 0x1e}, bytes.Repeat([]byte{'y'}, 4000)...)
			block = append(block, bytes.Repeat([]byte{0x80 | 62}, 10000)...)
			p.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: p.id, BlockFragment: block, EndHeaders: true})
		}, nil, "larger than 64 KiB"},
		"a field that is not in the table": {func(p *peer) {
			p.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: p.id, BlockFragment: []byte{0x88, 0xff, 0x20},
				EndHeaders: true})
		}, nil, "cannot be decoded"},
		"a table larger than it may be": {func(p *peer) {
			p.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: p.id, BlockFragment: []byte{0x3f, 0xe1, 0xff, 0x7f, 0x88},
				EndHeaders: true})
		}, nil, "cannot be decoded"},
		"a cut header": {func(p *peer) {
			p.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: p.id, BlockFragment: []byte{0x88, 0x0f, 0x0d, 0x09},
				EndHeaders: true})
		}, nil, "cannot be decoded"},
		"two headers": {func(p *peer) {
			p.head(false, ":status", "200")
			p.head(false, ":status", "200")
		}, nil, "a second header"},
		"a frame inside of a header": {func(p *peer) {
			p.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: p.id, BlockFragment: []byte{0x88}})
			p.WritePing(false, [8]byte{})
		}, nil, "in the middle of a header"},
		"a header that nothing began": {func(p *peer) {
			p.AllowIllegalWrites = true
			p.WriteContinuation(p.id, true, nil)
		}, nil, "that it did not begin"},
		"a body first": {func(p *peer) { p.WriteData(p.id, true, []byte("hello")) }, nil,
			"before the response's header"},
		"another stream": {func(p *peer) { p.id += 2; p.hello() }, nil, "which was not asked for"},
		"a stream of the server's": {func(p *peer) {
			p.WriteRawFrame(xhttp2.FrameHeaders, xhttp2.FlagHeadersEndHeaders, 2, []byte{0x88})
		}, nil, "the stream 2, which was not asked for"},
		"a body to HEAD": {func(p *peer) { p.hello() }, map[string]string{"method": "HEAD"}, "must not have one"},
		"more than padding": {func(p *peer) {
			p.head(false, ":status", "200")
			p.WriteRawFrame(xhttp2.FrameData, xhttp2.FlagDataPadded, p.id, []byte{9, 'x'})
		}, nil, "shorter than its padding"},
		"a reset": {func(p *peer) { p.WriteRSTStream(p.id, xhttp2.ErrCodeRefusedStream) }, nil,
			"reset the stream: REFUSED_STREAM"},
		"a reset in the body": {func(p *peer) {
			p.head(false, ":status", "200")
			p.WriteData(p.id, false, []byte("hel"))
			p.WriteRSTStream(p.id, xhttp2.ErrCodeInternal)
		}, nil, "reset the stream: INTERNAL_ERROR"},
		"the end of the connection": {func(p *peer) {
			p.head(false, ":status", "200")
			p.WriteData(p.id, false, []byte("hel"))
			p.Close()
		}, nil, "3 bytes of"},
		"giving up": {func(p *peer) { p.WriteGoAway(0, xhttp2.ErrCodeEnhanceYourCalm, []byte("too\x1bmany")) }, nil,
			`ENHANCE_YOUR_CALM, "too\x1bmany"`},
		"leaving at once": {func(p *peer) { p.WriteGoAway(0, xhttp2.ErrCodeNo, nil); p.drain() },
			map[string]string{"keepalive": "no"}, "before it has answered a request on it"},
		"silence": {func(p *peer) { p.drain() }, map[string]string{"timeout": "1s"},
			"longer than timeout=|not complete within 1s"},
		"half a response": {func(p *peer) {
			p.head(false, ":status", "200", "content-length", "5")
			p.WriteData(p.id, false, []byte("hel"))
			p.drain()
		}, map[string]string{"timeout": "1s"}, "3 bytes of"},
		"no room": {func(p *peer) { p.drain() }, map[string]string{"method": "POST", "body": "file:" + body,
			"timeout": "1s"}, "longer than timeout=|the server makes no room for the rest"},
		"a push": {func(p *peer) {
			p.WritePushPromise(xhttp2.PushPromiseParam{StreamID: p.id, PromiseID: 2, EndHeaders: true})
		}, nil, "told not to do"},
		"endless pings": {func(p *peer) {
			for p.WritePing(false, [8]byte{}) == nil {
			}
		}, nil, "frames in a row"},
		"endless settings": {func(p *peer) {
			for p.WriteSettings() == nil {
			}
		}, nil, "frames in a row"},
		"endless empty bodies": {func(p *peer) {
			p.head(false, ":status", "200")
			for p.WriteData(p.id, false, nil) == nil {
			}
		}, nil, "frames in a row"},
		"endless frames that nobody knows": {func(p *peer) {
			for p.WriteRawFrame(0x99, 0, 0, []byte("what")) == nil {
			}
		}, nil, "frames in a row"},
		"a huge frame": {func(p *peer) { p.WriteRawFrame(xhttp2.FrameData, 0, p.id, make([]byte, 1<<20)) }, nil,
			"a frame of 1048576 bytes"},
		"too much room": {func(p *peer) {
			p.WriteWindowUpdate(0, 1<<31-1)
			p.WriteWindowUpdate(0, 1<<31-1)
		}, nil, "exceeds the largest flow-control window"},
		"too much room in a stream": {func(p *peer) {
			p.WriteWindowUpdate(p.id, 1<<31-1)
			p.WriteWindowUpdate(p.id, 1<<31-1)
		}, nil, "exceeds the largest flow-control window"},
		"no more room": {func(p *peer) { p.AllowIllegalWrites = true; p.WriteWindowUpdate(p.id, 0) }, nil,
			"is not valid"},
		"a window that there is not": {func(p *peer) {
			p.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 1 << 31})
		}, nil, "not valid"},
		"fewer streams": {func(p *peer) {
			p.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: 0})
		}, nil, "allows 0 streams at a time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, good := range []int{0, 4} {
				url := serve2(t, nil, func(p *peer, request int) {
					if request < good {
						p.hello()
						return
					}
					c.do(p)
				})
				began := time.Now()
				_, err := loaded(t, with(with(map[string]string{"timeout": "30s"}, pairs(c.given)...),
					"url", url, "http", "2"), 20)
				if name == "another length" && good == 0 || name == "a body to HEAD" && good > 0 {
					continue // there is nothing that it differs from; or it fails before
				}
				either, or, _ := strings.Cut(c.want, "|")
				if err == nil || !strings.Contains(err.Error(), either) &&
					(or == "" || !strings.Contains(err.Error(), or)) || time.Since(began) > time.Minute {
					t.Errorf("after %d good ones and %v: %v, want %q", good, time.Since(began), err, c.want)
				}
			}
		})
	}
}

// pairs is the names and values of settings.
func pairs(given map[string]string) (all []string) {
	for k, v := range given {
		all = append(all, k, v)
	}
	return all
}

// TestNoHTTP2: what is no HTTP/2 from the beginning.
func TestNoHTTP2(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(c net.Conn)
		want string
	}{
		"HTTP/1.1": {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") },
			"it does not speak HTTP/2 here"},
		"another protocol": {func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH\r\n") }, "this is not HTTP/2"},
		"silence":          {func(c net.Conn) { io.Copy(io.Discard, c) }, "longer than timeout="},
		"the end":          {func(c net.Conn) { c.Close() }, "closed the connection"},
		"garbage":          {func(c net.Conn) { c.Write(bytes.Repeat([]byte{0xff}, 1<<20)) }, "this is not HTTP/2"},
		"no settings": {func(c net.Conn) { xhttp2.NewFramer(c, c).WritePing(false, [8]byte{}) },
			"this is not HTTP/2"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					conn.Read(make([]byte, 4096))
					c.do(conn)
					io.Copy(io.Discard, conn)
				}()
			}
		}()
		_, err = loaded(t, map[string]string{"url": "http://" + l.Addr().String(), "timeout": "1s", "http": "2"}, 10)
		if err == nil || !strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), "reset by peer") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		l.Close()
	}
}

// TestHTTP2TakesLittle: a server that announces no table of fields is spared one, a hostile header costs little memory,
// and one response that is held back delays no other.
func TestHTTP2TakesLittle(t *testing.T) {
	url := serve2(t, []xhttp2.Setting{{ID: xhttp2.SettingHeaderTableSize, Val: 0}}, func(p *peer, _ int) { p.hello() })
	if _, err := loaded(t, map[string]string{"url": url, "http": "2", "connections": "3"}, 300); err != nil {
		t.Error(err)
	}
	var held *peer
	url = serve2(t, nil, func(p *peer, request int) {
		switch request {
		case 10: // on the connection of the load
			own := *p
			held = &own
		case 60:
			id := p.id
			p.id = held.id
			p.hello()
			p.id = id
			p.hello()
		default:
			p.hello()
		}
	})
	b, err := loaded(t, map[string]string{"url": url, "http": "2", "connections": "1", "streams": "4"}, 100)
	if err != nil || b.Metrics["max_us"] < b.Metrics["p50_us"] {
		t.Errorf("one that is held back: %v", err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	url = serve2(t, nil, func(p *peer, _ int) {
		p.head(false, ":status", "200")
		for n := 0; n < 1<<30; n += 16 << 10 {
			if p.WriteData(p.id, n == 1<<30-16<<10, make([]byte, 16<<10)) != nil {
				return
			}
		}
	})
	if _, err := loaded(t, map[string]string{"url": url, "http": "2", "match": "x"}, 1); err == nil ||
		!strings.Contains(err.Error(), "larger than 8 MiB") {
		t.Errorf("a body of 1 GiB: %v", err)
	}
	runtime.ReadMemStats(&after)
	if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 512 {
		t.Errorf("%d MiB were allocated", grown)
	}
}

// TestRefusedStreams: what cannot be asked for.
func TestRefusedStreams(t *testing.T) {
	for _, given := range []map[string]string{{"streams": "2"}, {"streams": "2", "keepalive": "no", "http": "2"},
		{"streams": "1000", "connections": "16384", "http": "2"}, {"http": "3"}, {"streams": "0", "http": "2"}} {
		if _, err := loaded(t, given, 1); err == nil {
			t.Errorf("%v was not refused", given)
		}
	}
}

// TestHTTP2Login: a login and its cookies, as over HTTP/1.1.
func TestHTTP2Login(t *testing.T) {
	login(t, version2)
}
