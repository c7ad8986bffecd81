package fileio

// Burst is a row of equal reads or writes of one buffer at the file's own position, with a move of it before each where
// Offsets says so. On Linux it is one loop of machine code, as short as a C program's: a loop in Go passes through four
// functions to each system call, and where the kernel forgets the processor's address cache at each of them (a guest
// without hardware help), every page of code costs some 10 to 30 ns again.
type Burst struct {
	Write bool
	Buf   []byte // not empty
	// Offsets are where the calls go, by Whence; nil leaves the position alone, and one alone serves every call.
	Offsets []int64
	Whence  int // io.SeekStart, io.SeekCurrent or io.SeekEnd
}

// Do makes n calls. On failure done tells how many were made before, and got is what the failed one moved; err is nil
// when it moved too little. n must not exceed the number of offsets, if they are more than one.
func (b *Burst) Do(h *Handle, n int) (done, got int, err error) { return b.do(h, n) }

func (b *Burst) one(h *Handle) (int, error) {
	if b.Write {
		return h.Write(b.Buf)
	}
	return h.Read(b.Buf)
}
