package nbd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

// Fault is the effect of a power loss on writes that were acknowledged but not flushed.
type Fault string

// The faults.
const (
	Drop    Fault = "drop"    // all of them are lost
	Reorder Fault = "reorder" // a random part of them survives, as if the drive had reordered its writes
	Tear    Fault = "tear"    // as Reorder, but some survive only in part, by sectors
)

// Faults lists them all.
func Faults() []Fault { return []Fault{Drop, Reorder, Tear} }

// ParseFault returns the fault of a name.
func ParseFault(name string) (Fault, error) {
	if slices.Contains(Faults(), Fault(name)) {
		return Fault(name), nil
	}
	return "", fmt.Errorf("%q is not one of %v", name, Faults())
}

// ErrCut is the error of requests after the plug was pulled.
var ErrCut = errors.New("the plug was pulled")

// CacheSize is the default size of a volatile cache, in bytes. When it is exceeded, the oldest writes reach the medium,
// as in a drive.
const CacheSize = 256 << 20

// pendingWrite is a write that a power loss may undo.
type pendingWrite struct {
	off      int64
	old, new []byte
	durable  bool // forced unit access: the write is on the medium, those before it may not be
}

// volatileCache is a file with a volatile cache. The file always has the latest bytes, so reads only need the file; the
// data to undo at a cut is kept in memory.
type volatileCache struct {
	file  *os.File
	limit int64

	mu     sync.Mutex
	log    []pendingWrite // in the order of acknowledgement
	held   int64          // bytes in log
	cut    bool
	deaf   bool // flushes are ignored
	counts Counts
	armed  *trigger
}

// Counts counts a client's requests to a device.
type Counts struct {
	Writes  int64 `json:"writes"`  // write requests, including zeroes
	Flushes int64 `json:"flushes"` // flush requests
	FUA     int64 `json:"fua"`     // writes with forced unit access
	Evicted int64 `json:"evicted"` // writes that left the cache because it was full
}

// Cut is the result of a pulled plug.
type Cut struct {
	Fault   Fault  `json:"fault"`
	Seed    uint64 `json:"seed"`    // of the choices below
	Pending int    `json:"pending"` // writes that were acknowledged but not flushed
	Bytes   int64  `json:"bytes"`   // in them
	Kept    int    `json:"kept"`    // of them reached the medium completely
	Torn    int    `json:"torn"`    // of them reached it in part
	Counts
}

func (v *volatileCache) read(p []byte, off int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cut {
		return ErrCut
	}
	_, err := v.file.ReadAt(p, off)
	return err
}

func (v *volatileCache) write(p []byte, off int64, fua bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cut {
		return ErrCut
	}
	v.counts.Writes++
	if fua {
		v.counts.FUA++
	}
	return v.put(p, off, fua)
}

func (v *volatileCache) put(p []byte, off int64, fua bool) error {
	e := pendingWrite{off: off, old: make([]byte, len(p)), new: slices.Clone(p), durable: fua && !v.deaf}
	if _, err := v.file.ReadAt(e.old, off); err != nil {
		return err
	}
	if _, err := v.file.WriteAt(p, off); err != nil {
		// Part of it may be written; after a failed write a device may have either content.
		_, undo := v.file.WriteAt(e.old, off)
		return errors.Join(err, undo)
	}
	v.log, v.held = append(v.log, e), v.held+int64(len(p))
	v.evict()
	if v.fire(); v.cut {
		return ErrCut
	}
	return nil
}

// evict frees space: the oldest writes reach the medium.
func (v *volatileCache) evict() {
	n := 0
	for v.held > v.limit && n < len(v.log) {
		v.held -= int64(len(v.log[n].new))
		v.counts.Evicted++
		n++
	}
	v.log = slices.Delete(v.log, 0, n)
}

func (v *volatileCache) zero(off, n int64, fua, _ bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cut {
		return ErrCut
	}
	v.counts.Writes++
	if fua {
		v.counts.FUA++
	}
	return eachPiece(off, n, func(off int64, zeroes []byte) error { return v.put(zeroes, off, fua) })
}

// trim does nothing, as a device may: no record is ever trimmed.
func (v *volatileCache) trim(int64, int64) error { return nil }

// flush makes all acknowledged writes survive a cut. The file is not synced: it is the medium of this device, and the
// host does not lose power.
func (v *volatileCache) flush() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.cut {
		return ErrCut
	}
	if v.deaf {
		return nil
	}
	v.counts.Flushes++
	clear(v.log)
	v.log, v.held = v.log[:0], 0
	return nil
}

// trigger is a cut that waits until there are writes to lose.
type trigger struct {
	pending int // writes
	fault   Fault
	seed    uint64
	done    chan struct{}
	cut     Cut
	err     error
}

// fire cuts when enough is pending. The lock is held.
func (v *volatileCache) fire() {
	t := v.armed
	if t == nil || len(v.log) < t.pending {
		return
	}
	v.armed = nil
	t.cut, t.err = v.pull(t.fault, t.seed)
	close(t.done)
}

// arm cuts as soon as so many writes are pending, or after wait.
func (v *volatileCache) arm(pending int, fault Fault, seed uint64, wait time.Duration) (Cut, error) {
	t := &trigger{pending: pending, fault: fault, seed: seed, done: make(chan struct{})}
	v.mu.Lock()
	v.armed = t
	v.fire()
	v.mu.Unlock()
	timer := time.AfterFunc(wait, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		t.pending = 0
		v.fire()
	})
	defer timer.Stop()
	<-t.done
	return t.cut, t.err
}

// pull ends the device and leaves the file as after a power loss. The lock is held.
func (v *volatileCache) pull(fault Fault, seed uint64) (c Cut, err error) {
	if v.cut {
		return c, ErrCut
	}
	v.cut = true
	c = Cut{Fault: fault, Seed: seed, Counts: v.counts}
	for _, e := range slices.Backward(v.log) {
		if _, err := v.file.WriteAt(e.old, e.off); err != nil {
			return c, fmt.Errorf("undo a write of %d bytes at %d: %w", len(e.old), e.off, err)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0x637574))
	for _, e := range v.log {
		if e.durable {
			if err := e.apply(v.file, 0, len(e.new)); err != nil {
				return c, err
			}
			continue
		}
		c.Pending++
		c.Bytes += int64(len(e.new))
		if fault == Drop || rng.IntN(2) == 0 {
			continue
		}
		if fault == Tear && len(e.new) > sector && rng.IntN(2) == 0 {
			c.Torn++
			err = e.tear(v.file, rng)
		} else {
			c.Kept++
			err = e.apply(v.file, 0, len(e.new))
		}
		if err != nil {
			return c, err
		}
	}
	v.log, v.held = nil, 0
	return c, nil
}

func (e *pendingWrite) apply(f *os.File, from, to int) error {
	if _, err := f.WriteAt(e.new[from:to], e.off+int64(from)); err != nil {
		return fmt.Errorf("redo a write of %d bytes at %d: %w", to-from, e.off+int64(from), err)
	}
	return nil
}

// tear applies some of the sectors: at least one, and not all.
func (e *pendingWrite) tear(f *os.File, rng *rand.Rand) error {
	n := (len(e.new) + sector - 1) / sector
	must, never := rng.IntN(n), rng.IntN(n-1)
	if never >= must {
		never++
	}
	for i := range n {
		if i == never || i != must && rng.IntN(2) == 0 {
			continue
		}
		if err := e.apply(f, i*sector, min((i+1)*sector, len(e.new))); err != nil {
			return err
		}
	}
	return nil
}
