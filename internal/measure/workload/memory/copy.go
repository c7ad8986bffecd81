package memory

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"tare/internal/measure/workload"
	"tare/internal/sys/clock"
	"tare/internal/sys/thread"
	"tare/internal/unit"
)

// mallocOffset is the offset of a large array in glibc malloc's mapping. The speed of copies depends on alignment, so
// tare's arrays have the same offset.
const mallocOffset = 16

// fill is the value that mbw writes to every 8 bytes of both arrays to make them resident.
const fill = 0xaa

// stampEvery is the distance, in bytes, of the words that tell pages of the source apart. mbw has no such words: it
// would not notice a wrong copy, and a host that merges equal pages would merge all of them.
const stampEvery = 4096

// kernel is one way to copy src to dst, which are equally long, not empty and multiples of 8 bytes.
type kernel struct {
	name   string // for the checks
	copy   func(by move, dst, src []byte, block int)
	blocks bool // it copies block by block
	words  bool // it copies 8 bytes at a time
	// repeats: every block of dst is a copy of the first of src.
	repeats bool
}

// kernelFor returns the kernel that a version of mbw runs under a method's name.
func kernelFor(labels, method string) kernel {
	var (
		memcpy  = kernel{name: "one memmove of the array", copy: copyWhole}
		dumb    = kernel{name: "8-byte loop", copy: copyWords, words: true}
		mcblock = kernel{name: "memmove by block", copy: copyBlocks, blocks: true}
		first   = kernel{name: "memmove by block, always from the first", copy: copyFirstBlock, blocks: true,
			repeats: true}
	)
	if labels == "mbw-1.2" {
		return map[string]kernel{"memcpy": dumb, "dumb": memcpy, "mcblock": first}[method]
	}
	return map[string]kernel{"memcpy": memcpy, "dumb": dumb, "mcblock": mcblock}[method]
}

// copyTrial is a trial of memory.copy.
type copyTrial struct {
	size, block int
	labels      string
	method      string
	huge        thread.Huge
	kernel      kernel
	by          move

	src, dst *thread.Buffer
	a, b     []byte // the arrays within
	passes   []float64
}

func newCopy(p workload.Params) (workload.Trial, error) {
	t := &copyTrial{size: int(p.Int("size")), block: int(p.Int("block")), labels: p["labels"], method: p["method"],
		huge: thread.Huge(p["hugepages"])}
	t.kernel = kernelFor(t.labels, t.method)
	if int64(t.size) != p.Int("size") {
		return nil, fmt.Errorf("memory.copy: size=%s is more than this platform can address", p["size"])
	}
	if t.size%8 != 0 {
		return nil, fmt.Errorf("memory.copy: size=%s is not a multiple of 8 bytes", p["size"])
	}
	if t.method == "mcblock" && t.block > t.size {
		return nil, fmt.Errorf("memory.copy: block=%s is larger than size=%s", p["block"], p["size"])
	}
	if t.by = move(p["by"]); !t.kernel.words {
		var err error
		if t.by, err = chosen(t.by, t.atOnce()); err != nil {
			return nil, err
		}
	} else if t.by != byAuto && t.by != "" {
		return nil, fmt.Errorf("memory.copy: by=%s has no effect: %s of %s is a loop over 8 bytes", t.by,
			t.method, t.labels)
	}
	return t, nil
}

// atOnce is the number of bytes that one call copies.
func (t *copyTrial) atOnce() int {
	if t.kernel.blocks {
		return t.block
	}
	return t.size
}

func (t *copyTrial) Setup(_ context.Context, b *workload.Bench) error {
	if err := thread.CheckMemory(2 * int64(t.size)); err != nil {
		return err
	}
	var err error
	if t.src, t.a, err = array(t.size, t.huge); err != nil {
		return err
	}
	if t.dst, t.b, err = array(t.size, t.huge); err != nil {
		return err
	}
	fillArray(t.a)
	fillArray(t.b)
	for i := 0; i < t.size; i += stampEvery {
		binary.NativeEndian.PutUint64(t.a[i:], stamp(b.Seed, i))
	}
	t.passes = make([]float64, workload.MaxSamples)
	return nil
}

// Measure takes the time once per pass, as mbw does; a pass takes milliseconds.
func (t *copyTrial) Measure(_ context.Context, b *workload.Bench) error {
	mib := float64(t.size) / (1 << 20)
	t.passes = t.passes[:0]
	last := clock.Now()
	for range b.Work {
		t.kernel.copy(t.by, t.b, t.a, t.block)
		now := clock.Now()
		if len(t.passes) < cap(t.passes) {
			t.passes = append(t.passes, mib/now.Sub(last).Seconds())
		}
		last = now
	}
	return nil
}

// Report compares the arrays and gives the figures.
func (t *copyTrial) Report(b *workload.Bench) error {
	if err := t.verify(); err != nil {
		return err
	}
	b.Check("definition", t.labels+" "+t.method+": "+t.kernel.name)
	// The copying instructions depend on the processor's features, as in the C library, and may differ between a host
	// and its guest.
	if t.kernel.blocks {
		b.Note("block_copied_by", t.by.word())
	} else if !t.kernel.words {
		b.Note("copied_by", t.by.word())
	}
	b.Check("verified", unit.FormatSize(int64(t.size)))
	noteHuge(b, "huge_pages_source", t.src, t.huge)
	noteHuge(b, "huge_pages_destination", t.dst, t.huge)
	b.Report("mib_per_second", b.Rate(float64(t.size)/(1<<20)))
	b.Sample("mib_per_second", t.passes)
	return nil
}

func (t *copyTrial) verify() error {
	if !t.kernel.repeats {
		if !bytes.Equal(t.a, t.b) {
			return errors.New("verify copy: the destination differs from the source: this memory or its emulation " +
				"is faulty")
		}
		return nil
	}
	for at := 0; at < t.size; at += t.block {
		n := min(t.block, t.size-at)
		if !bytes.Equal(t.b[at:at+n], t.a[:n]) {
			return fmt.Errorf("verify copy: the destination's block at %d differs from the source's first block: "+
				"this memory or its emulation is faulty", at)
		}
	}
	return nil
}

func (t *copyTrial) Cleanup(*workload.Bench) error {
	t.a, t.b = nil, nil
	return errors.Join(t.src.Free(), t.dst.Free())
}

// array returns size bytes laid out as glibc's calloc lays out a large array.
func array(size int, huge thread.Huge) (*thread.Buffer, []byte, error) {
	buf, err := thread.Alloc(int64(size)+mallocOffset, huge)
	if err != nil {
		return nil, nil, err
	}
	return buf, buf.Bytes[mallocOffset:], nil
}

func fillArray(a []byte) {
	w := words(a)
	for i := range w {
		w[i] = fill
	}
}

// stamp is the word at offset i of the source: different for each i (the multiplier is odd), and never fill itself.
func stamp(seed uint64, i int) uint64 {
	return (seed+uint64(i))*0x9e3779b97f4a7c15<<8 | 1
}

func words(a []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(a))), len(a)/8)
}

// copyWhole is mbw's MEMCPY.
func copyWhole(by move, dst, src []byte, _ int) { copyBy(by, dst, src) }

// copyWords is mbw's DUMB: b[t] = a[t] over 8-byte elements. The compiler makes one load and one store of it per
// element, without a bounds check, as gcc -O2 does. It must not be inlined, so that it stays that way.
//
//go:noinline
func copyWords(_ move, dst, src []byte, _ int) {
	a, b := words(src), words(dst)
	b = b[:len(a)]
	//lint:ignore S1001 this loop is what is measured; copy is the other method
	for t := range a {
		b[t] = a[t]
	}
}

// copyBlocks is mbw's MCBLOCK since 1.3: both pointers advance, a shorter block ends it.
func copyBlocks(by move, dst, src []byte, block int) {
	for len(src) > block {
		copyBy(by, dst[:block], src[:block])
		dst, src = dst[block:], src[block:]
	}
	copyBy(by, dst, src)
}

// copyFirstBlock is MCBLOCK of mbw 1.2: the source pointer never advances. Where the size is no multiple of the block,
// mbw 1.2 writes past the end of the array; this ends with a shorter block.
func copyFirstBlock(by move, dst, src []byte, block int) {
	first := src[:block]
	for len(dst) > block {
		copyBy(by, dst[:block], first)
		dst = dst[block:]
	}
	copyBy(by, dst, first)
}
