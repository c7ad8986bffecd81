package iperf3

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
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
