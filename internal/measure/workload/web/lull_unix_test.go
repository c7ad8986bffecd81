//go:build unix

package web

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLooksLearn: a thread stops looking when nothing comes while it looks, and begins again when something does.
func TestLooksLearn(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	p, err := newPoller(1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := p.add(pair[0], 0, false); err != nil {
		t.Fatal(err)
	}
	s := lull{most: time.Microsecond, score: worthy}
	wait := func(want int) {
		t.Helper()
		if hits, err := s.wait(p, 0, false); err != nil || hits != want {
			t.Fatalf("%d hits, %v; want %d", hits, err, want)
		}
	}
	for range worthy/2 + 1 {
		wait(0)
	}
	if s.score >= worthy/2 {
		t.Fatalf("after looks in vain the score is %d", s.score)
	}
	before := s.score
	for range seldom - 1 {
		wait(0)
	}
	if s.score != before-1 {
		t.Errorf("of %d waits more or less than one began with a look: from %d to %d", seldom-1, before, s.score)
	}
	if _, err := unix.Write(pair[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	for range seldom * worthy {
		wait(1)
	}
	if s.score != worthy {
		t.Errorf("although there always is something the score is %d", s.score)
	}
	idle := lull{}
	if hits, err := idle.wait(p, 0, false); err != nil || hits != 1 || idle != (lull{}) {
		t.Errorf("without looks: %d hits, %v, %+v", hits, err, idle)
	}
}

// TestLullNeedsProcessor: a look keeps no processor from the server.
func TestLullNeedsProcessor(t *testing.T) {
	n := processors()
	for _, c := range []struct {
		threads int
		open    bool
		looks   bool
	}{{n, false, false}, {n + 1, false, false}, {n - 1, false, true},
		{n - 1, true, false}} {
		if d, says := lullFor(c.threads, c.open); (d > 0) != c.looks || says == "" {
			t.Errorf("%d threads of %d processors, open model %v: %v, %s", c.threads, n, c.open, d, says)
		}
	}
}

// TestNaps: a thread naps where a response comes during a nap and takes much longer than one.
func TestNaps(t *testing.T) {
	us := int64(time.Microsecond)
	for _, c := range []struct {
		what                       string
		elapsed, done, connections int64
		naps                       bool
	}{
		{"nothing yet", 0, 0, 32, false},
		{"32 connections to one fast process", 1000 * 11 * us, 1000, 32, true},
		{"two connections to it", 1000 * 11 * us, 1000, 2, false},
		{"32 connections to a slow server", 1000 * 300 * us, 1000, 32, false},
		{"32 connections to a server of many processes", 1000 * 2 * us, 1000, 32, false},
	} {
		if got := naps(c.elapsed, c.done, c.connections); got != (c.naps && canNap) {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// TestNapSees: after a nap there is what came during it, and a wait without anything lasts as long as it should.
func TestNapSees(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	p, err := newPoller(1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := p.add(pair[0], 0, false); err != nil {
		t.Fatal(err)
	}
	s := lull{most: time.Microsecond}
	var took time.Duration
	for tries := 0; took < 2*time.Millisecond && tries < 20; tries++ { // a signal of Go's scheduler ends a wait
		began := time.Now()
		if hits, err := s.wait(p, 2*time.Millisecond, true); err != nil || hits != 0 {
			t.Fatalf("of nothing: %d hits, %v", hits, err)
		}
		took = time.Since(began)
	}
	if took < 2*time.Millisecond {
		t.Errorf("each wait ended early, the last one after %v", took)
	}
	if _, err := unix.Write(pair[1], []byte("x")); err != nil {
		t.Fatal(err)
	}
	if hits, err := s.wait(p, time.Minute, true); err != nil || hits != 1 {
		t.Errorf("of one byte: %d hits, %v", hits, err)
	}
}
