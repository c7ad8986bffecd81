package line

import (
	"bytes"
	"testing"
)

func FuzzFrame(f *testing.F) {
	f.Add(byte(kindStream), uint32(7), []byte("}~ data"))
	f.Add(byte(kindOpen|fromHost), uint32(0), []byte{})
	f.Fuzz(func(t *testing.T, k byte, salt uint32, body []byte) {
		body = body[:min(len(body), maxData)]
		frame := appendFrame(nil, kind(k), salt, body)
		var s splitter
		chunks := 0
		s.feed(append([]byte("noise"), frame...), func(raw []byte) {
			if chunks++; chunks == 1 {
				return // the noise
			}
			got, b, ok := parseFrame(make([]byte, maxRaw), raw, salt)
			outside := kind(k)&^fromHost == kindCall || kind(k)&^fromHost == kindOpen
			if ok != (!outside || salt == 0) || got != kind(k) || !bytes.Equal(b, body) {
				t.Errorf("%v %d %q", ok, got, b)
			}
		})
		if chunks != 2 {
			t.Errorf("%d chunks", chunks)
		}
	})
}

func FuzzSegment(f *testing.F) {
	f.Add((&segment{ack: 1, limit: 1 << 40, data: true, end: true, offset: 300}).head(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ok := parseSegment(b)
		if !ok {
			return
		}
		again, ok := parseSegment(append(s.head(nil), s.payload...))
		if !ok || again.ack != s.ack || again.offset != s.offset || !bytes.Equal(again.payload, s.payload) {
			t.Errorf("%+v became %+v", s, again)
		}
	})
}

// FuzzEnds gives both ends of a session anything, without goroutines.
func FuzzEnds(f *testing.F) {
	f.Add([]byte("text~"), byte(0))
	f.Add(appendFrame(nil, kindStream, 7, (&segment{data: true}).head(nil), []byte("x")), byte(1))
	f.Add(appendFrame(nil, kindOpen|fromHost, 0, []byte{7, 0, 0, 0}), byte(0))
	f.Add(appendFrame(nil, kindAsk|fromHost, 7, []byte{255, 255, 3}), byte(0))
	f.Fuzz(func(t *testing.T, b []byte, host byte) {
		p := newPort(host&1 != 0)
		p.cur = newConn(p, 7)
		p.cur.met = true
		p.split.feed(b, p.chunk)
		// Also as the body of frames that are intact.
		for _, k := range []kind{kindCall, kindOpen, kindStream, kindAsk, kindAnswer} {
			p.split.feed(appendFrame(nil, k, 7, b[:min(len(b), maxData)]), p.chunk)
			p.split.feed(appendFrame(nil, k|fromHost, 7, b[:min(len(b), maxData)]), p.chunk)
		}
		for range 1000 {
			if len(p.next(nil)) == 0 {
				break
			}
		}
		if c := p.cur; c != nil && (len(c.in.b) > buffered || c.una > c.sent || c.nxt < c.una) {
			t.Errorf("%+v", c)
		}
		p.fail(errClosed)
	})
}
