package nbd

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tare/internal/sys/nbd/nbdtest"
)

const testSize = 8 << 20

// start serves a fresh disk and returns it with a connected client.
func start(t *testing.T, volatile bool, cache int64) (s *Server, c *nbdtest.Client, disk string) {
	t.Helper()
	dir := t.TempDir()
	disk = filepath.Join(dir, "disk.img")
	if err := os.WriteFile(disk, make([]byte, testSize), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{Disk: disk, Socket: filepath.Join(dir, "s"), Volatile: volatile, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if c, err = nbdtest.Dial(t.Context(), filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return s, c, disk
}

func filled(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

func write(t *testing.T, c *nbdtest.Client, p []byte, off int64) {
	t.Helper()
	if _, err := c.WriteAt(p, off); err != nil {
		t.Fatal(err)
	}
}

func onDisk(t *testing.T, path string, off int64, n int) []byte {
	t.Helper()
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return all[off : off+int64(n)]
}

// TestModel does random operations, many in flight, on both kinds of medium and compares with a slice of memory.
func TestModel(t *testing.T) {
	for _, volatile := range []bool{false, true} {
		_, c, disk := start(t, volatile, 0)
		if c.Size != testSize {
			t.Fatalf("size %d, want %d", c.Size, testSize)
		}
		const lanes, lane = 16, testSize / 16
		model := make([]byte, testSize)
		var wait sync.WaitGroup
		for i := range lanes {
			wait.Go(func() {
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				base := int64(i * lane)
				for range 60 {
					off, n := base+rng.Int64N(lane-70000), 1+rng.IntN(70000)
					p := make([]byte, n)
					var err error
					switch rng.IntN(5) {
					case 0:
						err = c.Zero(off, uint32(n))
						copy(model[off:], p)
					case 1:
						if _, err = c.ReadAt(p, off); err == nil && !bytes.Equal(p, model[off:off+int64(n)]) {
							err = errors.New("what was read is not what was written")
						}
					case 2:
						err = c.Flush()
					default:
						for j := range p {
							p[j] = byte(rng.Uint32())
						}
						put := c.WriteAt
						if rng.IntN(4) == 0 {
							put = c.WriteFUA
						}
						_, err = put(p, off)
						copy(model[off:], p)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wait.Wait()
		if !bytes.Equal(onDisk(t, disk, 0, testSize), model) {
			t.Errorf("volatile %v: the file is not what was written", volatile)
		}
	}
}

func TestRefusals(t *testing.T) {
	_, c, _ := start(t, false, 0)
	for what, err := range map[string]error{
		"read past the end":  func() error { _, err := c.ReadAt(make([]byte, 2), testSize-1); return err }(),
		"write past the end": func() error { _, err := c.WriteAt(make([]byte, 2), testSize-1); return err }(),
		"offset of 2^63":     c.Do(nbdtest.Request{Command: cmdTrim, Offset: 1 << 63, Length: 1}, nil, nil),
		"length over offset": c.Do(nbdtest.Request{Command: cmdWriteZeroes, Offset: 1<<64 - 1, Length: 2}, nil, nil),
		"unknown command":    c.Do(nbdtest.Request{Command: 77}, nil, nil),
		"unknown flag":       c.Do(nbdtest.Request{Command: cmdFlush, Flags: 1 << 9}, nil, nil),
		"long read":          c.Do(nbdtest.Request{Command: cmdRead, Length: MaxTransfer + 1}, nil, nil),
	} {
		if _, ok := errors.AsType[nbdtest.Error](err); !ok {
			t.Errorf("%s: %v, want the server's error", what, err)
		}
	}
	write(t, c, []byte("still here"), 0)
}

// TestOneClient sees to it that a second client waits: the device has one cache and one connection.
func TestOneClient(t *testing.T) {
	s, c, _ := start(t, false, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if c2, err := nbdtest.Dial(ctx, s.listener.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second client was served: %v, %v", c2, err)
	}
	write(t, c, []byte("first"), 0)
	c.Close()
	c2, err := nbdtest.Dial(t.Context(), s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	write(t, c2, []byte("second"), 0)
	c2.Close()
}

func TestCutDropsWhatNoFlushCovers(t *testing.T) {
	s, c, disk := start(t, true, 0)
	write(t, c, filled(1, 8192), 0)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	write(t, c, filled(2, 4096), 4096)
	write(t, c, filled(3, 100), 5000)
	if _, err := c.WriteFUA(filled(4, 512), 65536); err != nil {
		t.Fatal(err)
	}
	cut, err := s.CutAt(0, 0, Drop, 7)
	if err != nil {
		t.Fatal(err)
	}
	if cut.Pending != 2 || cut.Bytes != 4196 || cut.Kept != 0 || cut.Flushes != 1 || cut.FUA != 1 {
		t.Errorf("cut %+v", cut)
	}
	if !bytes.Equal(onDisk(t, disk, 0, 8192), filled(1, 8192)) {
		t.Error("the flushed write is not what a cut leaves")
	}
	if !bytes.Equal(onDisk(t, disk, 65536, 512), filled(4, 512)) {
		t.Error("forced unit access was lost")
	}
	if _, err := c.WriteAt(filled(9, 10), 0); err == nil {
		t.Error("a write after the cut was acknowledged")
	}
	if _, err := s.CutAt(0, 0, Drop, 7); !errors.Is(err, ErrCut) {
		t.Errorf("a second cut gave %v", err)
	}
}

// TestIgnoreFlushes loses what was flushed after it.
func TestIgnoreFlushes(t *testing.T) {
	s, c, disk := start(t, true, 0)
	write(t, c, filled(1, 4096), 0)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	s.IgnoreFlushes()
	write(t, c, filled(2, 4096), 0)
	_, err := c.WriteFUA(filled(3, 512), 65536)
	if err := errors.Join(err, c.Flush()); err != nil {
		t.Fatal(err)
	}
	cut, err := s.CutAt(0, 0, Drop, 7)
	if err != nil || cut.Pending != 2 || cut.Flushes != 1 {
		t.Errorf("cut %+v, %v", cut, err)
	}
	if !bytes.Equal(onDisk(t, disk, 0, 4096), filled(1, 4096)) || onDisk(t, disk, 65536, 1)[0] != 0 {
		t.Error("a flush counted that was to be ignored")
	}
}

// TestCutKeepsAndTears checks the shape of what reorder and tear leave, and that a seed repeats it.
func TestCutKeepsAndTears(t *testing.T) {
	const writes = 200
	run := func(f Fault, seed uint64) (Cut, []byte) {
		s, c, disk := start(t, true, 0)
		for i := range writes {
			write(t, c, filled(byte(1+i%250), 4096), int64(i)*8192)
		}
		cut, err := s.CutAt(0, 0, f, seed)
		if err != nil {
			t.Fatal(err)
		}
		return cut, onDisk(t, disk, 0, testSize)
	}
	for _, f := range []Fault{Reorder, Tear} {
		cut, got := run(f, 3)
		whole, torn := 0, 0
		for i := range writes {
			sectors := map[byte]int{}
			for s := range 8 {
				p := got[i*8192+s*512:][:512]
				if !bytes.Equal(p, filled(p[0], 512)) {
					t.Fatalf("%s: a sector was torn", f)
				}
				sectors[p[0]]++
			}
			switch {
			case sectors[byte(1+i%250)] == 8:
				whole++
			case sectors[0] != 8:
				torn++
			}
		}
		if whole != cut.Kept || torn != cut.Torn || cut.Pending != writes {
			t.Errorf("%s: %d whole and %d torn writes on the disk, cut says %+v", f, whole, torn, cut)
		}
		if whole < 20 || whole > 150 || (torn > 0) != (f == Tear) {
			t.Errorf("%s: %d whole, %d torn of %d", f, whole, torn, writes)
		}
		if again, same := run(f, 3); again != cut || !bytes.Equal(same, got) {
			t.Errorf("%s: the seed does not repeat the cut", f)
		}
		if _, other := run(f, 4); bytes.Equal(other, got) {
			t.Errorf("%s: another seed gives the same cut", f)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	s, c, disk := start(t, true, 16384)
	for i := range 8 {
		write(t, c, filled(byte(i+1), 4096), int64(i)*4096)
	}
	cut, err := s.CutAt(0, 0, Drop, 1)
	if err != nil {
		t.Fatal(err)
	}
	if cut.Evicted != 4 || cut.Pending != 4 {
		t.Errorf("cut %+v, want 4 evicted and 4 pending", cut)
	}
	if got := onDisk(t, disk, 0, 32768); got[4*4096-1] != 4 || got[4*4096] != 0 {
		t.Error("not the oldest writes left the cache")
	}
}

func TestCutNeedsACache(t *testing.T) {
	s, _, _ := start(t, false, 0)
	if _, err := s.CutAt(0, 0, Drop, 1); err == nil {
		t.Error("a device without a volatile cache could be cut")
	}
}

func TestBadDisks(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "odd")
	if err := os.WriteFile(odd, make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, disk := range []string{filepath.Join(dir, "none"), dir, odd} {
		if s, err := Start(t.Context(), Options{Disk: disk, Socket: filepath.Join(dir, "s")}); err == nil {
			s.Close()
			t.Errorf("%s can be served", disk)
		}
	}
}
