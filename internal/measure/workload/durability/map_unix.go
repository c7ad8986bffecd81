//go:build unix

package durability

import (
	"os"

	"golang.org/x/sys/unix"
)

func openDSync(path string) (*os.File, error) { return os.OpenFile(path, os.O_WRONLY|dsync, 0) }

// mapper stores into a mapped file.
type mapper struct{ m []byte }

func openMap(f *os.File) (writer, error) {
	m, err := unix.Mmap(int(f.Fd()), 0, slots*slot, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &mapper{m}, nil
}

func (w *mapper) put(n uint64, from origin) (r Record, done bool, err error) {
	if n == slots {
		return r, true, nil
	}
	r = Record{Class: Mapped, Seq: n + 1, Offset: n * slot}
	page := w.m[n*slot:][:slot]
	fill(page, &r, from)
	// Pages may be larger than a slot.
	size := uint64(os.Getpagesize())
	start := r.Offset / size * size
	return r, false, unix.Msync(w.m[start:min(start+max(size, slot), uint64(len(w.m)))], unix.MS_SYNC)
}

func (w *mapper) close() error { return unix.Munmap(w.m) }
