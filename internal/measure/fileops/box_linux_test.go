package fileops

import (
	"path/filepath"
	"testing"
)

func two(t *testing.T) (a, b *Box) {
	t.Helper()
	dir := t.TempDir()
	a = makeBox(t, dir)
	b, err := In(filepath.Join(dir, a.Base()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return a, b
}

func TestLocksExcludeTheOtherSide(t *testing.T) {
	a, b := two(t)
	must(t, a, Request{Op: Put, Name: n("l")})
	for _, kind := range []string{Flock, Fcntl} {
		ha := must(t, a, Request{Op: Open, Name: n("l"), Flags: ForWriting}).Handle
		hb := must(t, b, Request{Op: Open, Name: n("l"), Flags: ForWriting}).Handle
		must(t, a, Request{Op: Lock, Handle: ha, Kind: kind})
		refused(t, b, Request{Op: Lock, Handle: hb, Kind: kind}, "EAGAIN", "EACCES")
		must(t, a, Request{Op: Unlock, Handle: ha, Kind: kind})
		must(t, b, Request{Op: Lock, Handle: hb, Kind: kind})
		refused(t, a, Request{Op: Lock, Handle: ha, Kind: kind}, "EAGAIN", "EACCES")
		must(t, b, Request{Op: CloseOp, Handle: hb})
		must(t, a, Request{Op: Lock, Handle: ha, Kind: kind})
		must(t, a, Request{Op: CloseOp, Handle: ha})
	}
}

func TestMapsAreShared(t *testing.T) {
	a, b := two(t)
	h := must(t, a, Request{Op: Open, Name: n("m"), Flags: ForWriting | Create}).Handle
	must(t, a, Request{Op: Truncate, Handle: h, Size: 8192})
	m := must(t, a, Request{Op: Map, Handle: h, Size: 8192, Sync: true}).Handle
	must(t, a, Request{Op: Poke, Handle: m, Offset: 4096, Data: n("mapped"), Sync: true})
	hb := must(t, b, Request{Op: Open, Name: n("m"), Flags: ForWriting}).Handle
	if got := must(t, b, Request{Op: Read, Handle: hb, Offset: 4096, Size: 6}); string(got.Data) != "mapped" {
		t.Errorf("the other side reads %q", got.Data)
	}
	must(t, b, Request{Op: Write, Handle: hb, Data: n("written")})
	if got := must(t, a, Request{Op: Wait, Handle: m, Until: UntilMapData, Data: n("written"),
		TimeoutNS: 10e9}); !got.Seen {
		t.Errorf("the map does not show it: %+v", got)
	}
	if got := must(t, a, Request{Op: Peek, Handle: m, Size: 7}); string(got.Data) != "written" {
		t.Errorf("the map holds %q", got.Data)
	}
	refused(t, a, Request{Op: Peek, Handle: m, Size: 8193}, "EIO")
	refused(t, a, Request{Op: Poke, Handle: m, Offset: 8190, Data: n("123")}, "EIO")
	// What is cut off a mapped file is a fault of the processor's; the side must survive it.
	must(t, b, Request{Op: Truncate, Handle: hb, Size: 0})
	refused(t, a, Request{Op: Peek, Handle: m, Size: 1}, "SIGBUS")
	refused(t, a, Request{Op: Poke, Handle: m, Data: n("x"), Sync: true}, "SIGBUS")
	refused(t, a, Request{Op: Wait, Handle: m, Until: UntilMapData, Data: n("x"), TimeoutNS: 1e6}, "SIGBUS")
	must(t, a, Request{Op: Nop})
}

func TestWatchesTellOfTheOtherSide(t *testing.T) {
	a, b := two(t)
	w := must(t, a, Request{Op: Watch}).Handle
	if got := must(t, a, Request{Op: Events, Handle: w, Name: n("new"), TimeoutNS: 5e6}); got.Seen {
		t.Errorf("told of nothing: %+v", got)
	}
	must(t, b, Request{Op: Put, Name: n("new\n\xff")})
	if got := must(t, a, Request{Op: Events, Handle: w, Name: n("new\n\xff"), TimeoutNS: 10e9}); !got.Seen ||
		got.Names[0] != `"new\n\xff"` {
		t.Errorf("%+v", got)
	}
}

func TestListingsTellTypes(t *testing.T) {
	b := makeBox(t, t.TempDir())
	must(t, b, Request{Op: Put, Name: n("file\xfe")})
	must(t, b, Request{Op: Mkdir, Name: n("dir")})
	must(t, b, Request{Op: Symlink, Name: n("link"), To: n("nowhere")})
	got := map[string]string{}
	for _, e := range must(t, b, Request{Op: List, Name: n(".")}).Entries {
		got[string(e.Name)] = e.Type
	}
	if len(got) != 3 || got["file\xfe"] != "file" || got["dir"] != "directory" || got["link"] != "link" {
		t.Errorf("%q", got)
	}
}
