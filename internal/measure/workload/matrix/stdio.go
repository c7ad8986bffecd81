package matrix

import (
	"errors"

	"tare/internal/measure/fileio"
)

// stdio writes records through a buffer of one record, as fwrite(3) of the GNU C library does after setvbuf(3) with a
// buffer of that size (seen with strace: the addresses of the calls alternate). The first record finds no room prepared
// and goes straight to write(2). That prepares the buffer, so the second is copied into it and makes no call. The third
// finds it full: the buffer is written, then the third itself. So each record is one write(2) of one record, and every
// second one costs a copy. The library's fread(3) needs no type: a request of the buffer's size is read(2) straight
// into the caller's memory.
type stdio struct {
	h    *fileio.Handle
	buf  []byte
	room bool // the buffer is prepared and empty
	full bool
}

// put is fwrite of one record of the buffer's size.
func (s *stdio) put(p []byte) error {
	if s.room {
		fileio.Copy(s.buf, p)
		s.room, s.full = false, true
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.room = true
	return writeOne(s.h, p)
}

// flush is fflush.
func (s *stdio) flush() error {
	if !s.full {
		return nil
	}
	s.full, s.room = false, true
	return writeOne(s.h, s.buf)
}

var errShort = errors.New("the system transferred less than a record")

func writeOne(h *fileio.Handle, p []byte) error {
	n, err := h.Write(p)
	if err == nil && n != len(p) {
		err = errShort
	}
	return err
}
