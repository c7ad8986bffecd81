package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
	"unsafe"

	"tare/internal/measure/workload"
	"tare/internal/sys/clock"
	"tare/internal/sys/thread"
	"tare/internal/unit"
)

// Loads of one round at one size. Below nearLimit a load takes a few nanoseconds, above it a hundred and more. With
// these numbers a round takes some tens of milliseconds on a current machine, and each size clearly less than half of
// it.
const (
	nearLimit = 1 << 20
	nearLoads = 1 << 20
	farLoads  = 1 << 18
)

// maxLap bounds the untimed loads that warm the caches before a size is timed.
const maxLap = 1 << 20

// node is a link of the chain, at the beginning of a line. It is in memory that the garbage collector does not know,
// and points only to such memory.
type node struct{ next *node }

// ring is a closed chain through one size of memory.
type ring struct {
	size  int64
	buf   *thread.Buffer
	nodes int
	at    *node // the position in the chain
	loads int   // of one round

	spent  time.Duration
	rounds []float64 // ns per load of each round, as far as kept
}

// latency is a trial of memory.latency.
type latency struct {
	stride int
	huge   thread.Huge
	sizes  []int64

	rings []*ring
	team  *thread.Team
}

func newLatency(p workload.Params) (workload.Trial, error) {
	sizes, err := parseSizes(p["sizes"])
	if err != nil {
		return nil, fmt.Errorf("memory.latency: %w", err)
	}
	stride, err := strconv.Atoi(p["stride"])
	if err != nil {
		return nil, fmt.Errorf("memory.latency: stride: %w", err)
	}
	if last := sizes[len(sizes)-1]; int64(int(last)) != last {
		return nil, fmt.Errorf("memory.latency: size %s is more than this platform can address", unit.FormatSize(last))
	}
	return &latency{stride: stride, huge: thread.Huge(p["hugepages"]), sizes: sizes}, nil
}

func (t *latency) Setup(ctx context.Context, b *workload.Bench) error {
	need := int64(0)
	for _, s := range t.sizes {
		// The order of the chain is drawn in a table of 4 bytes per node, freed before the next.
		need += s
	}
	if err := thread.CheckMemory(need + 4*t.sizes[len(t.sizes)-1]/int64(t.stride)); err != nil {
		return err
	}
	// One thread, bound to a processor if the platform can: on a NUMA machine, the measured thread must be the one that
	// touches the memory first.
	var err error
	if t.team, err = thread.Start(1, true); errors.Is(err, thread.ErrUnsupported) {
		t.team, err = thread.Start(1, false)
		b.Note("processor", "not bound")
	} else if err == nil {
		b.Note("processor", strconv.Itoa(t.team.CPUs()[0]))
	}
	if err != nil {
		return err
	}
	for _, s := range t.sizes {
		if err := ctx.Err(); err != nil {
			return err
		}
		r := &ring{size: s, loads: nearLoads, rounds: make([]float64, 0, workload.MaxSamples)}
		if s > nearLimit {
			r.loads = farLoads
		}
		if r.buf, err = thread.Alloc(s, t.huge); err != nil {
			return err
		}
		t.rings = append(t.rings, r)
		t.team.Do(func(int) { r.nodes = link(r.buf.Bytes, t.stride, b.Seed) })
		r.at = nodeAt(r.buf.Bytes, 0)
	}
	return nil
}

// Measure does the rounds of one size after the other, so that each size has the caches to itself.
func (t *latency) Measure(_ context.Context, b *workload.Bench) error {
	work := b.Work
	t.team.Do(func(int) {
		for _, r := range t.rings {
			r.measure(work)
		}
	})
	return nil
}

func (r *ring) measure(work int64) {
	r.spent, r.rounds = 0, r.rounds[:0]
	at := chase(r.at, min(r.nodes, maxLap))
	for range work {
		start := clock.Now()
		at = chase(at, r.loads)
		d := clock.Since(start)
		r.spent += d
		if len(r.rounds) < cap(r.rounds) {
			r.rounds = append(r.rounds, float64(d)/float64(r.loads))
		}
	}
	r.at = at
}

// Report gives the figures and checks that each chain is still one cycle, which proves that every load was right.
func (t *latency) Report(b *workload.Bench) error {
	for _, r := range t.rings {
		if n := cycle(r.at, r.nodes); n != r.nodes {
			return fmt.Errorf("verify the chain of %s: it returns to its start after %d of %d loads: this memory or "+
				"its emulation is faulty", unit.FormatSize(r.size), n, r.nodes)
		}
		name := latencyMetric(r.size)
		b.Check("nodes_"+unit.FormatSize(r.size), strconv.Itoa(r.nodes))
		noteHuge(b, "huge_pages_"+unit.FormatSize(r.size), r.buf, t.huge)
		b.Report(name, float64(r.spent)/float64(r.loads)/float64(b.Work))
		b.Sample(name, r.rounds)
	}
	return nil
}

func (t *latency) Cleanup(*workload.Bench) error {
	if t.team != nil {
		t.team.Close()
	}
	var errs []error
	for _, r := range t.rings {
		r.at = nil
		errs = append(errs, r.buf.Free())
	}
	return errors.Join(errs...)
}

// link writes a chain through memory that visits the beginning of every stride bytes once and closes, in an order drawn
// from seed by Sattolo's algorithm, which yields each cyclic permutation with equal probability. It returns the number
// of nodes.
func link(memory []byte, stride int, seed uint64) int {
	n := len(memory) / stride
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	next := make([]uint32, n)
	for i := range next {
		next[i] = uint32(i)
	}
	for i := n - 1; i > 0; i-- {
		j := rng.IntN(i)
		next[i], next[j] = next[j], next[i]
	}
	for i, j := range next {
		nodeAt(memory, i*stride).next = nodeAt(memory, int(j)*stride)
	}
	return n
}

func nodeAt(memory []byte, offset int) *node {
	return (*node)(unsafe.Pointer(&memory[offset]))
}

// chase does n dependent loads. The loop is unrolled eightfold, so that counting never limits it.
//
//go:noinline
func chase(p *node, n int) *node {
	for ; n >= 8; n -= 8 {
		p = p.next.next.next.next.next.next.next.next
	}
	for ; n > 0; n-- {
		p = p.next
	}
	return p
}

// cycle counts the loads after which the chain comes back to p, at most limit+1.
func cycle(p *node, limit int) int {
	n := 1
	for q := p.next; q != p && n <= limit; q = q.next {
		n++
	}
	return n
}
