package fileio

// Burst is a series of equal reads or writes of one buffer at the file's own position, with a seek before each if there
// are Offsets. On Linux it is one loop of machine code, as short as a C program's: a loop in Go calls four functions
// per system call, and if each system call flushes the TLB (in a guest without hardware help), every page of code costs
// some 10 to 30 ns again.
type Burst struct {
	Write bool
	Buf   []byte // not empty
	// Offsets are the calls' offsets, by Whence; nil means no seek, and a single one is used for every call.
	Offsets []int64
	Whence  int // io.SeekStart, io.SeekCurrent or io.SeekEnd
}

// Do makes n calls. On failure done is the number of calls before, and got the bytes that the failed one transferred;
// err is nil if these were too few. n must not exceed the number of offsets if there is more than one.
func (b *Burst) Do(h *Handle, n int) (done, got int, err error) { return b.do(h, n) }

func (b *Burst) one(h *Handle) (int, error) {
	if b.Write {
		return h.Write(b.Buf)
	}
	return h.Read(b.Buf)
}
