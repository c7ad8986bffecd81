package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ring is a queue of operations on one file. It is not safe for concurrent use. After Enable it must be used by one
// locked operating system thread only.
type Ring struct {
	fd       int
	file     int32
	fileFlag uint8
	fixed    bool // buffers are registered
	disabled bool // until Enable
	setup    uint32

	sqMap, cqMap, sqeMap []byte
	sqTail, cqHead       *atomic.Uint32
	cqTail               *atomic.Uint32
	sqMask, cqMask       uint32
	sqes                 []sqe
	cqes                 []cqe

	arena   []byte
	base    uintptr
	size    uint32 // of one buffer
	tail    uint32 // the next operation's place
	pending uint32 // queued but not yet submitted
	flying  int    // queued but not yet completed
}

// maxDepth is the most operations in flight, well below the kernel's own limit of 32768.
const maxDepth = 4096

// maxRegistered is the largest buffer that the kernel registers.
const maxRegistered = 1 << 30

// New makes a ring for depth operations at a time, 1 to 4096, of size bytes each on the open file fd, which must stay
// open until Close. The ring has a page-aligned buffer for each slot from 0 to depth-1 when size is a multiple of a
// page.
//
// The error wraps ErrUnavailable if this process cannot use io_uring.
func New(fd uintptr, depth, size int) (_ *Ring, err error) {
	if depth < 1 || depth > maxDepth || size < 1 || size > 1<<30 {
		return nil, fmt.Errorf("set up io_uring: a depth of %d with %d bytes each is out of range", depth, size)
	}
	r := &Ring{fd: -1, file: int32(fd), size: uint32(size)}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	p, err := r.open(uint32(depth))
	if err != nil {
		return nil, err
	}
	if err := r.mapRings(p); err != nil {
		return nil, fmt.Errorf("map the rings of io_uring: %w", err)
	}
	// A separate mapping: the kernel pins it, and the garbage collector need not know it.
	r.arena, err = unix.Mmap(-1, 0, depth*size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("take %d bytes for the buffers of io_uring: %w", depth*size, err)
	}
	r.base = uintptr(unsafe.Pointer(unsafe.SliceData(r.arena)))
	r.register()
	return r, nil
}

// open makes the ring with the features of the newest kernels, then with fewer: deferred completions (6.1), completions
// that do not interrupt the thread (5.19), and none.
func (r *Ring) open(depth uint32) (*params, error) {
	for _, flags := range []uint32{
		setupSingleIssuer | setupDeferTaskrun | setupCoopTaskrun | setupRDisabled,
		setupCoopTaskrun,
		0,
	} {
		p := &params{flags: flags | setupCQSize, cqEntries: 2 * depth}
		fd, _, e := syscall.Syscall(sysSetup, uintptr(depth), uintptr(unsafe.Pointer(p)), 0)
		switch e {
		case 0:
			r.fd, r.setup, r.disabled = int(fd), flags, flags&setupRDisabled != 0
			syscall.CloseOnExec(r.fd)
			return p, nil
		case unix.EINVAL: // a flag that this kernel does not know
		default:
			return nil, unavailable(e)
		}
	}
	return nil, unavailable(unix.EINVAL)
}

// unavailable explains why there is no ring.
func unavailable(e syscall.Errno) error {
	switch e {
	case unix.ENOSYS:
		return fmt.Errorf("set up io_uring: %w: %w: this kernel does not have it (it needs Linux 5.1, and some "+
			"kernels are built without); use engine=psync with threads, or engine=auto", ErrUnavailable, e)
	case unix.EPERM, unix.EACCES:
		return fmt.Errorf("set up io_uring: %w: %w: kernel.io_uring_disabled or a container's seccomp profile "+
			"forbids it; allow it (docker: --security-opt seccomp=unconfined), use engine=psync with threads, or "+
			"engine=auto",
			ErrUnavailable, e)
	case unix.ENOMEM:
		return fmt.Errorf("set up io_uring: %w: %w: raise the limit of locked memory (ulimit -l), or use a smaller qd",
			ErrUnavailable, e)
	}
	return fmt.Errorf("set up io_uring: %w: %w", ErrUnavailable, e)
}

func (r *Ring) mapRings(p *params) error {
	sqSize := int(p.sq.array + p.sqEntries*4)
	cqSize := int(p.cq.cqes) + int(p.cqEntries)*int(unsafe.Sizeof(cqe{}))
	const prot, how = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	single := p.features&featSingleMmap != 0
	if single {
		sqSize = max(sqSize, cqSize)
	}
	var err error
	if r.sqMap, err = unix.Mmap(r.fd, offSQRing, sqSize, prot, how); err != nil {
		return err
	}
	cq := r.sqMap
	if !single {
		if r.cqMap, err = unix.Mmap(r.fd, offCQRing, cqSize, prot, how); err != nil {
			return err
		}
		cq = r.cqMap
	}
	if r.sqeMap, err = unix.Mmap(r.fd, offSQEs, int(p.sqEntries)*int(unsafe.Sizeof(sqe{})), prot, how); err != nil {
		return err
	}
	word := func(m []byte, off uint32) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&m[off])) }
	r.sqTail, r.sqMask = word(r.sqMap, p.sq.tail), word(r.sqMap, p.sq.ringMask).Load()
	r.cqHead, r.cqTail, r.cqMask = word(cq, p.cq.head), word(cq, p.cq.tail), word(cq, p.cq.ringMask).Load()
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(unsafe.SliceData(r.sqeMap))), p.sqEntries)
	r.cqes = unsafe.Slice((*cqe)(unsafe.Pointer(&cq[p.cq.cqes])), p.cqEntries)
	// Operation i is always in place i mod size, so the index array is filled once.
	array := unsafe.Slice((*uint32)(unsafe.Pointer(&r.sqMap[p.sq.array])), p.sqEntries)
	for i := range array {
		array[i] = uint32(i)
	}
	r.tail = r.sqTail.Load()
	return nil
}

// register registers the file and the buffers with the kernel. Both only save time; a limit on locked memory may forbid
// the buffers.
func (r *Ring) register() {
	fd := r.file
	if r.control(registerFiles, unsafe.Pointer(&fd), 1) == 0 {
		r.file, r.fileFlag = 0, sqeFixedFile
	}
	if len(r.arena) <= maxRegistered {
		v := unix.Iovec{Base: unsafe.SliceData(r.arena)}
		v.SetLen(len(r.arena))
		r.fixed = r.control(registerBuffers, unsafe.Pointer(&v), 1) == 0
	}
}

func (r *Ring) control(op uintptr, arg unsafe.Pointer, n uintptr) syscall.Errno {
	_, _, e := syscall.Syscall6(sysRegister, uintptr(r.fd), op, uintptr(arg), n, 0, 0)
	return e
}

// Describe says how the ring works, for the record: "registered file and buffers, deferred completions".
func (r *Ring) Describe() string {
	s := map[bool]string{true: "registered file", false: "file by descriptor"}[r.fileFlag != 0]
	s += map[bool]string{true: ", registered buffers", false: ", buffers pinned each time"}[r.fixed]
	switch {
	case r.setup&setupDeferTaskrun != 0:
		s += ", deferred completions"
	case r.setup&setupCoopTaskrun != 0:
		s += ", cooperative completions"
	}
	return s
}

// Enable binds the ring to the calling thread, which must be locked. It comes before the first Submit.
func (r *Ring) Enable() error {
	if !r.disabled {
		return nil
	}
	if e := r.control(registerEnableRings, nil, 0); e != 0 {
		return fmt.Errorf("enable io_uring: %w", e)
	}
	r.disabled = false
	return nil
}

// Buffer returns the buffer of a slot.
func (r *Ring) Buffer(slot int) []byte {
	at := slot * int(r.size)
	return r.arena[at : at+int(r.size) : at+int(r.size)]
}

// Read queues a read of a whole buffer at off into the slot's buffer. The slot must not be in flight.
func (r *Ring) Read(slot int, off int64) { r.queue(slot, off, opRead, opReadFixed) }

// Write queues a write of the slot's buffer at off. The slot must not be in flight.
func (r *Ring) Write(slot int, off int64) { r.queue(slot, off, opWrite, opWriteFixed) }

func (r *Ring) queue(slot int, off int64, plain, fixed uint8) {
	e := &r.sqes[r.tail&r.sqMask]
	*e = sqe{opcode: plain, flags: r.fileFlag, fd: r.file, off: uint64(off),
		addr: uint64(r.base + uintptr(slot)*uintptr(r.size)), len: r.size, userData: uint64(slot)}
	if r.fixed {
		e.opcode = fixed
	}
	r.tail++
	r.pending++
	r.flying++
}

// InFlight returns how many operations are queued or in the kernel.
func (r *Ring) InFlight() int { return r.flying }

// Submit submits the queued operations and waits until at least wait operations, at most those in flight, are complete.
// It makes one system call, or none if there is nothing to do.
func (r *Ring) Submit(wait int) error {
	r.sqTail.Store(r.tail)
	wait = min(wait, r.flying)
	for r.pending > 0 || int(r.cqTail.Load()-r.cqHead.Load()) < wait {
		n, _, e := syscall.RawSyscall6(sysEnter, uintptr(r.fd), uintptr(r.pending), uintptr(wait), enterGetEvents, 0, 0)
		switch e {
		case 0:
			r.pending -= uint32(n)
		case unix.EINTR:
		case unix.EAGAIN, unix.EBUSY: // the kernel is short of memory, or completions must be taken first
			if r.cqTail.Load() != r.cqHead.Load() {
				return nil
			}
		default:
			return e
		}
	}
	return nil
}

// Next returns the next completion: the slot, and the bytes moved or the negative error number. It never waits: ok is
// false when there is none.
func (r *Ring) Next() (slot int, res int32, ok bool) {
	head := r.cqHead.Load()
	if head == r.cqTail.Load() {
		return 0, 0, false
	}
	c := &r.cqes[head&r.cqMask]
	slot, res = int(c.userData), c.res
	r.cqHead.Store(head + 1)
	r.flying--
	return slot, res, true
}

// Release unregisters the file and the buffers. The kernel frees a closed ring later, and until then a registered file
// keeps its file system busy, so that it cannot be unmounted. It must be called on the thread that called Enable, with
// nothing in flight; elsewhere it does nothing. The ring cannot be used afterwards.
func (r *Ring) Release() {
	if r.fileFlag != 0 {
		r.control(unregisterFiles, nil, 0)
	}
	if r.fixed {
		r.control(unregisterBuffers, nil, 0)
	}
}

// Close waits for the operations in flight, so that the kernel writes to no buffer afterwards, and frees the ring. It
// is idempotent.
func (r *Ring) Close() error {
	var err error
	for r.fd >= 0 && !r.disabled && r.flying > 0 {
		if err = r.Submit(1); err != nil {
			break
		}
		for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
		}
	}
	for _, m := range []*[]byte{&r.sqMap, &r.cqMap, &r.sqeMap} {
		if *m != nil {
			err = errors.Join(err, unix.Munmap(*m))
			*m = nil
		}
	}
	if r.fd >= 0 {
		err = errors.Join(err, unix.Close(r.fd))
		r.fd = -1
	}
	if r.arena != nil {
		err = errors.Join(err, unix.Munmap(r.arena))
		r.arena = nil
	}
	return err
}
