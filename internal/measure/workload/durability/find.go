package durability

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Find reports every record of the classes in dir, whole or not, in the order of the files. A record of another round
// is not whole. Empty places are not reported; a missing directory has no records.
func Find(dir string, classes []Class, round uint32, tell func(Record) error) error {
	for _, c := range classes {
		n, size := uint32(1), slot
		switch c {
		case Create, CreateDir:
			n = files
		case Rename:
			n = targets
		case Append:
			size = appended
		}
		for file := range n {
			if err := findIn(name(dir, c, file), Record{Class: c, File: file}, size, round, tell); err != nil {
				return err
			}
		}
	}
	return nil
}

func findIn(path string, at Record, size int, round uint32, tell func(Record) error) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) || broken(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := io.LimitReader(f, maxRead)
	p := make([]byte, size)
	for {
		n, err := io.ReadFull(in, p)
		if n > 0 {
			r, none := read(p[:n], at, round)
			if none == nil {
				if err := tell(r); err != nil {
					return err
				}
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF || broken(err) {
			return nil
		}
		if err != nil {
			return err
		}
		at.Offset += uint64(size)
	}
}

// broken tells whether a file system refuses a file that it finds damaged: its records are lost.
func broken(err error) bool { return errors.Is(err, syscall.EBADMSG) || errors.Is(err, syscall.EIO) }
