package fileops

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// must carries out an operation that has to work.
func must(t *testing.T, b Side, r Request) Reply {
	t.Helper()
	reply, err := b.Do(t.Context(), r)
	if err != nil {
		t.Fatalf("%s: %v", r.Op, err)
	}
	if reply.Fault != nil {
		t.Fatalf("%s %q: %s: %s", r.Op, r.Name, reply.Fault.Code, reply.Fault.Message)
	}
	return reply
}

// refused carries out an operation that has to be refused with one of the codes.
func refused(t *testing.T, b Side, r Request, codes ...string) {
	t.Helper()
	reply, err := b.Do(t.Context(), r)
	if err != nil {
		t.Fatalf("%s: %v", r.Op, err)
	}
	if reply.Fault == nil {
		t.Fatalf("%s %q was not refused", r.Op, r.Name)
	}
	for _, c := range codes {
		if reply.Fault.Code == c {
			return
		}
	}
	t.Errorf("%s %q: %s (%s), want %q", r.Op, r.Name, reply.Fault.Code, reply.Fault.Message, codes)
}

func makeBox(t *testing.T, dir string) *Box {
	t.Helper()
	b, err := Make(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func n(s string) []byte { return []byte(s) }

func TestFilesAreWhatTheyWereMade(t *testing.T) {
	b := makeBox(t, t.TempDir())
	must(t, b, Request{Op: Put, Name: n("a"), Data: n("hello")})
	if got := must(t, b, Request{Op: Get, Name: n("a"), Size: 100}); string(got.Data) != "hello" {
		t.Errorf("read %q", got.Data)
	}
	h := must(t, b, Request{Op: Open, Name: n("a"), Flags: ForWriting}).Handle
	must(t, b, Request{Op: Write, Handle: h, Data: n("J"), Offset: 0})
	if got := must(t, b, Request{Op: Read, Handle: h, Size: 3, Offset: 0}); string(got.Data) != "Jel" {
		t.Errorf("read %q", got.Data)
	}
	must(t, b, Request{Op: Truncate, Handle: h, Size: 2})
	if got := must(t, b, Request{Op: Stat, Handle: h}).Stat; got.Size != 2 {
		t.Errorf("after truncation %+v", got)
	}
	must(t, b, Request{Op: CloseOp, Handle: h})
	refused(t, b, Request{Op: Read, Handle: h, Size: 1}, "EIO")
	refused(t, b, Request{Op: Open, Name: n("a"), Flags: ForWriting | Create | Exclusive}, "EEXIST")
	must(t, b, Request{Op: Mkdir, Name: n("d")})
	must(t, b, Request{Op: Link, Name: n("a"), To: n("d/b")})
	must(t, b, Request{Op: Symlink, Name: n("s"), To: n("d/b")})
	if got := must(t, b, Request{Op: Readlink, Name: n("s")}); string(got.Data) != "d/b" {
		t.Errorf("the link holds %q", got.Data)
	}
	if got := must(t, b, Request{Op: Stat, Name: n("s"), Follow: true}).Stat; got.Size != 2 {
		t.Errorf("by the link %+v", got)
	}
	must(t, b, Request{Op: Rename, Name: n("d/b"), To: n("a")})
	must(t, b, Request{Op: Chmod, Name: n("a"), Mode: 0o755})
	const at int64 = 1234567890123456789
	must(t, b, Request{Op: Times, Name: n("a"), TimeNS: at})
	if got := must(t, b, Request{Op: Stat,
		Name: n("a")}).Stat; got.MtimeNS/int64(time.Second) != at/int64(time.Second) {
		t.Errorf("after setting the time %+v", got)
	}
	must(t, b, Request{Op: Remove, Name: n("a")})
	refused(t, b, Request{Op: Stat, Name: n("a")}, "ENOENT")
}

func TestNothingLeadsOut(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	if err := os.WriteFile(outside, n("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := makeBox(t, dir)
	for _, name := range []string{"../outside", outside, "a/../../outside", "..", "", "a//b", "./a", "a\x00b",
		"1/2/3/4/5/6/7/8/9"} {
		if _, err := b.Do(t.Context(), Request{Op: Put, Name: n(name), Data: n("x")}); err == nil {
			t.Errorf("name %q was taken", name)
		}
	}
	must(t, b, Request{Op: Symlink, Name: n("out"), To: n("../outside")})
	must(t, b, Request{Op: Symlink, Name: n("abs"), To: n(outside)})
	must(t, b, Request{Op: Symlink, Name: n("up"), To: n("..")})
	for _, r := range []Request{
		{Op: Get, Name: n("out"), Size: 10}, {Op: Get, Name: n("abs"), Size: 10},
		{Op: Put, Name: n("out"), Data: n("x")},
		{Op: Open, Name: n("up/outside")}, {Op: Remove, Name: n("up/outside")},
		{Op: Rename, Name: n("up/outside"), To: n("mine")},
		{Op: Link, Name: n("up/outside"), To: n("mine")}, {Op: Chmod, Name: n("out"), Mode: 0o777},
		{Op: Access, Name: n("up/outside")},
		{Op: Fill, Name: n("up"), Count: 1}, {Op: Race, Name: n("up"), Kind: RaceCreate, TimeoutNS: 1e6},
		{Op: List, Name: n("up")},
		{Op: Claim, Name: n("up/x"), Count: 1}, {Op: Times, Name: n("out")}, {Op: Stat, Name: n("out"), Follow: true},
	} {
		reply, err := b.Do(t.Context(), r)
		if err == nil && reply.Fault == nil {
			t.Errorf("%s %q led out", r.Op, r.Name)
		}
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != "precious" {
		t.Errorf("outside is now %q, %v", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("beside the box are %v, %v", entries, err)
	}
}

func TestCloseRemovesWhatWasMade(t *testing.T) {
	dir := t.TempDir()
	b, err := Make(dir)
	if err != nil {
		t.Fatal(err)
	}
	must(t, b, Request{Op: Fill, Name: n("f"), Count: 300, Data: n("x")})
	must(t, b, Request{Op: Open, Name: n("f/0/1")})
	name := b.Base()
	other, err := Adopt(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	if got := must(t, other, Request{Op: Verify, Name: n("f"), Count: 301, Data: n("x")}).Count; got != 300 {
		t.Errorf("%d of 300 files are right", got)
	}
	if got := must(t, other, Request{Op: Verify, Name: n("f"), Count: 300, Data: n("y")}).Count; got != 0 {
		t.Errorf("%d of 300 files hold what was never written", got)
	}
	for _, side := range []*Box{b, other, b} {
		if err := side.Close(); err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
	if reply, err := b.Do(t.Context(), Request{Op: Nop}); err != nil || reply.Fault == nil {
		t.Errorf("a closed side answered %+v, %v", reply, err)
	}
	for _, wrong := range []string{"..", "other", "tare-card-", "tare-card-x/..", "../" + name} {
		if s, err := Adopt(dir, wrong); err == nil {
			s.Close()
			t.Errorf("%q was adopted, which Close would remove", wrong)
		}
	}
}

func TestWaitSeesWhatTheOtherSideDoes(t *testing.T) {
	dir := t.TempDir()
	a := makeBox(t, dir)
	b, err := In(filepath.Join(dir, a.Base()))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	must(t, a, Request{Op: Put, Name: n("size"), Data: n("1")})
	must(t, a, Request{Op: Put, Name: n("old"), Data: n("old")})
	must(t, a, Request{Op: Put, Name: n("gone")})
	for _, c := range []struct {
		wait   Request
		change Request
	}{
		{Request{Name: n("new"), Until: UntilThere}, Request{Op: Put, Name: n("new")}},
		{Request{Name: n("gone"), Until: UntilGone}, Request{Op: Remove, Name: n("gone")}},
		{Request{Name: n("size"), Until: UntilSize, Size: 3},
			Request{Op: Put, Name: n("size"), Data: n("22"), Flags: Append}},
		{Request{Name: n("old"), Until: UntilData, Data: n("new")}, Request{Op: Put, Name: n("old"), Data: n("new")}},
	} {
		c.wait.Op, c.wait.TimeoutNS = Wait, 20e6
		if got := must(t, b, c.wait); got.Seen || got.WaitedNS < 20e6 {
			t.Errorf("%s was seen before it happened: %+v", c.wait.Until, got)
		}
		c.wait.TimeoutNS = 50e9
		seen := make(chan Reply)
		go func() {
			reply, _ := b.Do(t.Context(), c.wait)
			seen <- reply
		}()
		time.Sleep(5 * time.Millisecond)
		must(t, a, c.change)
		if got := <-seen; !got.Seen || got.Polls == 0 || got.GapNS > got.WaitedNS {
			t.Errorf("%s: %+v", c.wait.Until, got)
		}
	}
}

func TestGivenUpWaitsEnd(t *testing.T) {
	b := makeBox(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := b.Do(ctx, Request{Op: Wait, Name: n("never"), Until: UntilThere, TimeoutNS: 50e9}); err != nil &&
		!errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("giving up took %v", d)
	}
	must(t, b, Request{Op: Nop})
}

func TestHungOperationsMakeASideRefuse(t *testing.T) {
	b := makeBox(t, t.TempDir())
	release := make(chan struct{})
	defer func(o operation) { operations[Nop] = o }(operations[Nop])
	operations[Nop] = operation{do: func(*Box, context.Context, *Request, *Reply) error { <-release; return nil }}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := b.Do(ctx, Request{Op: Nop})
	if s, ok := errors.AsType[*StuckError](err); !ok || s.Op != Nop {
		t.Errorf("got %v", err)
	}
	_, err = b.Do(t.Context(), Request{Op: Stat, Name: n(".")})
	if s, ok := errors.AsType[*StuckError](err); !ok || s.Op != Nop {
		t.Errorf("the next request got %v", err)
	}
	if err := b.Close(); err == nil {
		t.Error("a side with an operation under way was closed")
	}
	close(release)
	for end := time.Now().Add(2 * time.Minute); ; {
		if _, err := b.Do(t.Context(), Request{Op: Stat, Name: n(".")}); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestRacesAndClaims(t *testing.T) {
	b := makeBox(t, t.TempDir())
	must(t, b, Request{Op: Mkdir, Name: n("r")})
	for _, kind := range []string{RaceStat, RaceCreate} {
		got := must(t, b, Request{Op: Race, Name: n("r"), Kind: kind, Threads: 2, TimeoutNS: 200e6})
		if got.Count < 2 || got.WaitedNS < 200e6 || got.CPUs < 1 {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	if got := must(t, b, Request{Op: Claim, Name: n("c"), Count: 10}).Count; got != 10 {
		t.Errorf("first with %d of 10", got)
	}
	if got := must(t, b, Request{Op: Claim, Name: n("c"), Count: 12}).Count; got != 2 {
		t.Errorf("first with %d of 2", got)
	}
}

func TestHandlesAreBounded(t *testing.T) {
	b := makeBox(t, t.TempDir())
	must(t, b, Request{Op: Put, Name: n("a")})
	for range maxHandles {
		must(t, b, Request{Op: Open, Name: n("a")})
	}
	refused(t, b, Request{Op: Open, Name: n("a")}, "EIO")
}

func TestFlushesAreTimedOneByOne(t *testing.T) {
	b := makeBox(t, t.TempDir())
	h := must(t, b, Request{Op: Open, Name: n("a"), Flags: ForWriting | Create}).Handle
	for _, sync := range []bool{false, true} {
		got := must(t, b, Request{Op: Flush, Handle: h, Size: 4096, Count: 4, Sync: sync}).NS
		if len(got) != 4 || got[0] <= 0 {
			t.Errorf("sync %v: %v", sync, got)
		}
	}
	if got := must(t, b, Request{Op: Get, Name: n("a"), Size: 8000}).Data; len(got) != 4096 ||
		bytes.Count(got, []byte{0}) > 100 {
		t.Errorf("%d bytes were written", len(got))
	}
}
