package fileops

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzRequest carries out whatever can be decoded, in a directory beside a file that must stay as it is.
func FuzzRequest(f *testing.F) {
	for _, r := range []Request{
		{Op: Open, Name: n("a"), Flags: ForWriting | Create}, {Op: Write, Handle: 1, Data: n("x"), Offset: 1 << 40},
		{Op: Read, Handle: 1, Size: MaxData},
		{Op: Put, Name: n("../outside"), Data: n("x")}, {Op: Symlink, Name: n("up"), To: n("..")},
		{Op: Put, Name: n("up/outside")},
		{Op: Map, Handle: 1, Size: MaxData, Sync: true}, {Op: Poke, Handle: 2, Data: n("x"), Offset: 5},
		{Op: Wait, Name: n("a"), Until: UntilData},
		{Op: Race, Name: n("."), Threads: 16, Kind: RaceCreate}, {Op: Lock, Handle: 1, Kind: Fcntl},
		{Op: SetXattr, Handle: 1, To: n("user.a")},
		{Op: Events, Handle: 1, Name: n("a")}, {Op: Fill, Name: n("d"), Count: 3},
		{Op: Flush, Handle: 1, Count: MaxCount, Size: 1}, {Op: Begin, Root: "/"},
	} {
		b, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"op":"open","name":"Li4v","size":-1}`))
	f.Add([]byte(`{"op":"race","count":1e9}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Decode(raw)
		if err != nil {
			return
		}
		dir := t.TempDir()
		outside := filepath.Join(dir, "outside")
		if err := os.WriteFile(outside, n("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := Make(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(outside); err != nil || string(got) != "precious" {
				t.Errorf("outside is now %q, %v", got, err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
				t.Errorf("left: %v, %v", entries, err)
			}
		}()
		if r.Op == Begin || r.Op == Join || r.Op == End {
			return
		}
		// Files, a link and a handle of each kind that a request may mean.
		must(t, b, Request{Op: Put, Name: n("a"), Data: n("content")})
		must(t, b, Request{Op: Symlink, Name: n("up"), To: n("..")})
		h := must(t, b, Request{Op: Open, Name: n("a"), Flags: ForWriting})
		must(t, b, Request{Op: Truncate, Handle: h.Handle, Size: 8192})
		if r.Op == Truncate || r.Op == Write {
			r.Offset, r.Size = min(r.Offset, 1<<20), min(r.Size, 1<<20) // the disk of whoever fuzzes
		}
		r.Count = min(r.Count, 50)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		began := time.Now()
		reply, err := b.Do(ctx, r)
		if d := time.Since(began); d > time.Minute {
			t.Errorf("%s took %v", r.Op, d)
		}
		if err == nil {
			if out, err := json.Marshal(reply); err != nil || len(out) > 1<<20 {
				t.Errorf("%s: an answer of %d bytes, %v", r.Op, len(out), err)
			}
		}
	})
}
