package iperf3

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"tare/internal/sys/sock"
)

func FuzzUnpack(f *testing.F) {
	for _, v := range []any{
		Params{TCP: true, Streams: 3, Block: 1000, Bytes: 1e12}, Results{Streams: []Stream{{ID: 1, Bytes: 5}}},
	} {
		b, err := Pack(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, '{'})
	f.Add([]byte{0, 0, 0, 2, '{', '}', '{'})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range []any{&Params{}, &Results{}} {
			from := bytes.NewReader(b)
			if err := Unpack(from, v); err != nil {
				continue
			}
			if read := len(b) - from.Len(); read < 4+2 || read > 4+MaxMessage {
				t.Errorf("%d bytes of %x were read", read, b)
			}
			if _, err := json.Marshal(v); err != nil {
				t.Errorf("%x reads as %+v: %v", b, v, err)
			}
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	b := make([]byte, 16)
	PutHeader(b, true, 1<<40, 90*time.Minute+time.Microsecond)
	f.Add(b, true)
	PutHeader(b, false, 7, time.Second)
	f.Add(b[:12], false)
	f.Fuzz(func(t *testing.T, b []byte, wide bool) {
		number, left, ok := ParseHeader(b, wide)
		if !ok {
			return
		}
		if number < 1 || left < 0 {
			t.Errorf("%x reads as number %d of %v", b, number, left)
		}
		again := make([]byte, Header(wide))
		PutHeader(again, wide, number, left)
		n, l, _ := ParseHeader(again, wide)
		if n != number || l != left {
			t.Errorf("%x reads as %d of %v, and then as %d of %v", b, number, left, n, l)
		}
	})
}

func TestStreamIDs(t *testing.T) {
	for i, want := range []int{1, 3, 4, 5} {
		if got := StreamID(i); got != want {
			t.Errorf("stream %d is %d, want %d", i, got, want)
		}
	}
}

// TestReorderedBothWays: a server does not tell what came late of what it received, so that of both ways together it is
// not known, whichever of the streams is counted first.
func TestReorderedBothWays(t *testing.T) {
	up, down := Lane{Amount: 10}, Lane{Down: true, Got: sock.Arrivals{Received: 10, Next: 10, Late: 3}}
	theirs := &Results{Streams: []Stream{{ID: StreamID(0), Packets: 10}, {ID: StreamID(1), Packets: 10}}}
	mine := &Results{Streams: []Stream{{ID: StreamID(0), End: 1}, {ID: StreamID(1), End: 1}}}
	for want, lanes := range map[int64][]Lane{-1: {up, down}, 6: {down, down}} {
		c := &Client{test: Test{UDP: true}, Lanes: lanes}
		if o, err := c.outcome(mine, theirs); err != nil || o.Late != want || o.Received != 20 || o.Sent != 20 {
			t.Errorf("%+v, %v, want %d late", o, err, want)
		}
	}
	c := &Client{test: Test{UDP: true}, Lanes: []Lane{down, up}}
	if o, err := c.outcome(mine, theirs); err != nil || o.Late != -1 {
		t.Errorf("%+v, %v", o, err)
	}
}
