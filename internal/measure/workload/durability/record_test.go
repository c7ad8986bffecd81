package durability

import (
	"bytes"
	"errors"
	"testing"
)

func TestPackUnpack(t *testing.T) {
	want := []Record{{Class: Append, Whole: true, Seq: 1 << 40, File: 7, Offset: 1 << 50, Length: 1600, Hash: 1 << 63},
		{Class: Mapped, Seq: 2}}
	var b []byte
	for i := range want {
		b = want[i].Pack(b)
	}
	if len(b) != 2*RecordSize {
		t.Errorf("two records take %d bytes", len(b))
	}
	got, err := Unpack(b)
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRead(t *testing.T) {
	at := Record{Class: Overwrite, File: 3, Offset: 8192}
	made := at
	made.Seq = 12
	p := make([]byte, slot)
	fill(p, &made, origin{99, 3})
	if got, err := read(p, at, 3); err != nil || got != made {
		t.Errorf("read back %+v, %v; want %+v", got, err, made)
	}
	for _, i := range []int{0, 8, 12, 20, 30, 41, headerSize, slot - 1} {
		q := bytes.Clone(p)
		q[i] ^= 1
		if got, err := read(q, at, 3); err != nil || got.Whole {
			t.Errorf("byte %d changed: %+v, %v", i, got, err)
		}
	}
	if got, err := read(p, at, 4); err != nil || got.Whole {
		t.Errorf("a record of another round counts as whole: %+v, %v", got, err)
	}
	older, q := made, make([]byte, slot)
	if fill(q, &older, origin{99, 2}); bytes.Equal(p[headerSize:], q[headerSize:]) || older.Hash == made.Hash {
		t.Error("two rounds write the same contents")
	}
	elsewhere := at
	elsewhere.Offset = 0
	if got, err := read(p, elsewhere, 3); err != nil || got.Whole {
		t.Errorf("a record in another's place counts as whole: %+v, %v", got, err)
	}
	if _, err := read(make([]byte, slot), at, 3); !errors.Is(err, errNone) {
		t.Errorf("a blank place: %v", err)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add((&Record{Class: DSync, Whole: true, Seq: 1}).Pack(nil))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		rs, err := Unpack(b)
		if err != nil {
			return
		}
		var again []byte
		for i := range rs {
			again = rs[i].Pack(again)
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
	})
}

func FuzzRead(f *testing.F) {
	r := Record{Class: Append, Seq: 1}
	p := make([]byte, appended)
	fill(p, &r, origin{seed: 1})
	f.Add(p)
	f.Add(p[:30])
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		if got, err := read(b, Record{Class: Append}, 0); err == nil && got.Whole && got.Hash != hash(b) {
			t.Errorf("whole with another hash: %+v", got)
		}
	})
}
