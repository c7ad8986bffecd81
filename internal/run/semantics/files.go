package semantics

import (
	"fmt"
	"time"

	"tare/internal/measure/fileops"
)

func fileTrials() []trial {
	return []trial{
		{lines: []line{{"o-excl", "O_EXCL refuses what exists"}}, run: tryExclusive},
		{lines: []line{{"rename-open", "renaming over an open file"}, {"unlink-open",
			"an open file can be deleted and read on"}}, run: tryOpenFiles},
		{lines: []line{{"sparse", "files may have holes"}}, run: trySparse},
		{lines: []line{{"o-direct", "direct I/O (O_DIRECT)"}}, run: tryDirect},
		{lines: []line{{"mmap", "files can be mapped shared and written"}}, run: tryMap},
		{lines: []line{{"flock", "flock excludes"}, {"fcntl", "fcntl locks exclude"}}, run: tryLocks},
		{lines: []line{{"inotify", "change events (inotify) of own changes"}}, run: tryEvents},
	}
}

func tryExclusive(t *try) {
	t.in.put("exclusive", "")
	_, f := t.in.ask(fileops.Request{Op: fileops.Open, Name: []byte("exclusive"),
		Flags: fileops.ForWriting | fileops.Create | fileops.Exclusive})
	switch {
	case f == nil:
		t.say("o-excl", no, bad, "a file that exists was opened with O_CREAT and O_EXCL: lock files do not work")
	case f.Code == "EEXIST":
		t.say("o-excl", yes, good, "a file that exists is refused")
	default:
		t.refusal("o-excl", bad, f)
	}
}

func tryOpenFiles(t *try) {
	t.in.put("replaced", "old")
	t.in.put("replacement", "new")
	h := t.in.open("replaced", 0)
	if _, f := t.in.ask(fileops.Request{Op: fileops.Rename, Name: []byte("replacement"),
		To: []byte("replaced")}); f != nil {
		t.refusal("rename-open", bad, f)
	} else {
		held, named := t.in.read(h), t.in.get("replaced")
		t.check("rename-open", held == "old" && named == "new", "the open file still reads %q, the name reads %q", held,
			named)
	}
	t.in.put("deleted", "old")
	h = t.in.open("deleted", 0)
	if _, f := t.in.ask(fileops.Request{Op: fileops.Remove, Name: []byte("deleted")}); f != nil {
		t.refusal("unlink-open", bad, f)
		return
	}
	reply, f := t.in.ask(fileops.Request{Op: fileops.Read, Handle: h, Size: 16})
	if f != nil {
		t.refusal("unlink-open", bad, f)
		return
	}
	t.check("unlink-open", string(reply.Data) == "old", "it still reads %q", reply.Data)
}

func trySparse(t *try) {
	const size = 4 << 20
	h := t.in.open("sparse", fileops.ForWriting|fileops.Create)
	t.in.do(fileops.Request{Op: fileops.Write, Handle: h, Offset: size - 1, Data: []byte("x")})
	// What a client has not sent yet, no host can count.
	t.in.do(fileops.Request{Op: fileops.Flush, Handle: h, Count: 1, Size: 1, Sync: true})
	s := t.in.do(fileops.Request{Op: fileops.Stat, Handle: h}).Stat
	if t.err() != nil {
		return
	}
	if s.Blocks < 0 {
		t.say("sparse", untested, neutral, "%v", fileops.ErrUnsupported)
		return
	}
	hole, f := t.in.ask(fileops.Request{Op: fileops.Seek, Handle: h, Hole: true})
	found := "SEEK_HOLE finds the hole"
	if f != nil {
		found = "SEEK_HOLE is refused: " + f.Message
	} else if hole.Offset >= size {
		found = "SEEK_HOLE finds no hole"
	}
	holes, takes := s.Blocks*512 <= size/2, fmt.Sprintf("takes %d KiB", s.Blocks/2)
	if host, ok := t.hostStat("sparse"); ok && host.Size == size && host.Blocks >= 0 {
		holes = host.Blocks*512 <= size/2
		takes = fmt.Sprintf("takes %d KiB on the host, and inside it appears to take %d KiB", host.Blocks/2, s.Blocks/2)
	}
	t.in.do(fileops.Request{Op: fileops.Truncate, Handle: h})
	answer, rating := yes, good
	switch {
	case !holes:
		answer, rating = no, neutral
	case f != nil || hole.Offset >= size:
		answer, rating = partly, neutral
	}
	t.say("sparse", answer, rating, "a file of %d bytes with the first and the last written %s; %s", size, takes, found)
}

// hostStat is a file's status on the host's side, where that is known. Clients such as sshfs, cifs and 9p with a cache
// invent the blocks that a file takes from its size. Not seeing the host is no failure of what is tried inside.
func (t *try) hostStat(name string) (fileops.Status, bool) {
	if t.out == nil {
		return fileops.Status{}, false
	}
	reply, err := t.out.side.Do(t.ctx, fileops.Request{Op: fileops.Stat, Name: []byte(name)})
	if err != nil || reply.Fault != nil || reply.Stat == nil {
		return fileops.Status{}, false
	}
	return *reply.Stat, true
}

func tryDirect(t *try) {
	// The file is there first: in VirtualBox's folder a call that makes one with O_DIRECT never returns (Linux 6.1).
	t.in.do(fileops.Request{Op: fileops.Put, Name: []byte("direct")})
	open, f := t.in.ask(fileops.Request{Op: fileops.Open, Name: []byte("direct"),
		Flags: fileops.ForWriting | fileops.Direct})
	if f != nil {
		t.refusal("o-direct", neutral, f)
		return
	}
	if _, f := t.in.ask(fileops.Request{Op: fileops.Write, Handle: open.Handle, Data: make([]byte, 4096)}); f != nil {
		t.refusal("o-direct", neutral, f)
		return
	}
	got := t.in.do(fileops.Request{Op: fileops.Read, Handle: open.Handle, Size: 4096})
	t.check("o-direct", len(got.Data) == 4096, "4 KiB were written and %d bytes read back", len(got.Data))
}

// page is the size of the files that are mapped.
const page = 4096

// mapped makes a file of one page and maps it. A fault is the file system's refusal.
func (a *actor) mapped(name string) (handle, memory int, f *fileops.Fault) {
	handle = a.open(name, fileops.ForWriting|fileops.Create)
	a.do(fileops.Request{Op: fileops.Truncate, Handle: handle, Size: page})
	m, f := a.ask(fileops.Request{Op: fileops.Map, Handle: handle, Size: page, Sync: true})
	return handle, m.Handle, f
}

func tryMap(t *try) {
	_, memory, f := t.in.mapped("mapped")
	if f != nil {
		t.refusal("mmap", bad, f)
		return
	}
	t.in.do(fileops.Request{Op: fileops.Poke, Handle: memory, Data: []byte("by memory"), Sync: true})
	got := t.in.get("mapped")
	t.check("mmap", len(got) > 8 && got[:9] == "by memory",
		"what was written into the map and synced is read from the file: %q", head(got, 9))
}

func head(s string, n int) string { return s[:min(n, len(s))] }

// locks are the two kinds of locks, and the lines for them within a side and across.
var locks = []struct{ kind, within, across string }{
	{fileops.Flock, "flock", "flock-across"},
	{fileops.Fcntl, "fcntl", "fcntl-across"},
}

func tryLocks(t *try) {
	for _, l := range locks {
		t.in.put("lock-"+l.kind, "x")
		first, second := t.in.open("lock-"+l.kind, fileops.ForWriting), t.in.open("lock-"+l.kind, fileops.ForWriting)
		if _, f := t.in.ask(fileops.Request{Op: fileops.Lock, Handle: first, Kind: l.kind}); f != nil {
			t.refusal(l.within, bad, f)
			continue
		}
		_, f := t.in.ask(fileops.Request{Op: fileops.Lock, Handle: second, Kind: l.kind})
		t.check(l.within, held(f), "while one opening holds it, another %s", granted(f))
	}
}

// held tells whether the refusal of a lock says that somebody has it.
func held(f *fileops.Fault) bool { return f != nil && (f.Code == "EAGAIN" || f.Code == "EACCES") }

func granted(f *fileops.Fault) string {
	switch {
	case f == nil:
		return "is granted it too"
	case held(f):
		return "is refused it"
	}
	return "fails: " + f.Message
}

// The time that events have to come. Those of the same kernel are there at once; a guest that is emulated may need a
// while to run the watcher.
const (
	ownEvents   = 500 * time.Millisecond
	otherEvents = 800 * time.Millisecond
)

func tryEvents(t *try) {
	w, f := t.in.ask(fileops.Request{Op: fileops.Watch})
	if f != nil {
		t.refusal("inotify", bad, f)
		return
	}
	t.in.put("event", "")
	got := t.in.do(fileops.Request{Op: fileops.Events, Handle: w.Handle, Name: []byte("event"),
		TimeoutNS: int64(ownEvents)})
	t.check("inotify", got.Seen, "a file was made in a folder that is watched: %s", told(got.Seen, ownEvents))
}

func told(seen bool, limit time.Duration) string {
	if seen {
		return "the event came"
	}
	return "no event came within " + duration(limit)
}
