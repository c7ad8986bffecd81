//go:build amd64 || arm64

package durability

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringBytes is the room for events that were not read yet: more than ten thousand of them.
const ringBytes = 256 << 10

// tap is a ring in which the kernel tells of flushes.
type tap struct {
	ring, program, link int
	consumer            []byte // a page that tells the kernel how far it was read
	producer            []byte // a page that tells how far it was written, and the data twice in a row
}

// call is a system call that asked for a flush.
type call struct {
	pid int // of the process
	fd  int
}

func (t *tap) mapRing() (err error) {
	page := os.Getpagesize()
	if t.consumer, err = unix.Mmap(t.ring, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the ring of events: %w", err)
	}
	// The data is mapped twice in a row, so that no event is cut at the end.
	if t.producer, err = unix.Mmap(t.ring, int64(page), page+2*ringBytes, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the ring of events: %w", err)
	}
	return nil
}

// The marks in an event's header (linux/bpf.h).
const (
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
	ringHeader  = 8
)

// read hands out what the kernel has told since the last read.
func (t *tap) read(tell func(call)) {
	consumed := (*uint64)(unsafe.Pointer(&t.consumer[0]))
	produced := (*uint64)(unsafe.Pointer(&t.producer[0]))
	data := t.producer[os.Getpagesize():]
	at, end := atomic.LoadUint64(consumed), atomic.LoadUint64(produced)
	for at < end {
		p := data[at%ringBytes:]
		n := atomic.LoadUint32((*uint32)(unsafe.Pointer(&p[0])))
		if n&ringBusy != 0 {
			break // still being written
		}
		size := uint64(n &^ ringDiscard)
		if n&ringDiscard == 0 && size >= eventSize {
			who := binary.NativeEndian.Uint64(p[ringHeader:])
			tell(call{pid: int(who >> 32), fd: int(int32(binary.NativeEndian.Uint64(p[ringHeader+8:])))})
		}
		at += ringHeader + (size+7)&^7
		atomic.StoreUint64(consumed, at)
	}
}

func (t *tap) close() error {
	var errs []error
	for _, m := range [][]byte{t.consumer, t.producer} {
		if m != nil {
			errs = append(errs, unix.Munmap(m))
		}
	}
	t.consumer, t.producer = nil, nil
	for _, fd := range []*int{&t.link, &t.program, &t.ring} {
		if *fd >= 0 {
			errs = append(errs, unix.Close(*fd))
		}
		*fd = -1
	}
	return errors.Join(errs...)
}
