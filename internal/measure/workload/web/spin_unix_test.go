//go:build unix

package web

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSpinLearns: a thread stops looking when nothing comes while it looks, and begins again when something does.
func TestSpinLearns(t *testing.T) {
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
	s := spinner{most: time.Microsecond, score: worthy}
	wait := func(want int) {
		t.Helper()
		if hits, err := s.wait(p, 0); err != nil || hits != want {
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
	idle := spinner{}
	if hits, err := idle.wait(p, 0); err != nil || hits != 1 || idle != (spinner{}) {
		t.Errorf("without looks: %d hits, %v, %+v", hits, err, idle)
	}
}

// TestSpinNeedsProcessor: a look keeps no processor from the server.
func TestSpinNeedsProcessor(t *testing.T) {
	n := processors()
	for _, c := range []struct {
		threads int
		open    bool
		looks   bool
	}{{n, false, false}, {n + 1, false, false}, {n - 1, false, true},
		{n - 1, true, false}} {
		if d, says := spinFor(c.threads, c.open); (d > 0) != c.looks || says == "" {
			t.Errorf("%d threads of %d processors, open model %v: %v, %s", c.threads, n, c.open, d, says)
		}
	}
}
