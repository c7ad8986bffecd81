package fileio

import "os"

// Mode is the way in which a file is opened: for reading only by default.
type Mode struct {
	Write  bool // for reading and writing
	Create bool // created if it is missing, else truncated; needs Write
	Direct bool // past the page cache: O_DIRECT, F_NOCACHE, FILE_FLAG_NO_BUFFERING

	// A workload that does the work of another program opens files as that program does. It makes a difference: a
	// server is asked for other rights, and a page that is written in part need not be read first.
	Only  bool // with Write: for writing only
	Keep  bool // with Create: not truncated
	Atime bool // reads update the file's access time, which on Linux they do not do otherwise
}

// flags are the flags of open(2) that every system has.
func (m Mode) flags() int {
	flags := os.O_RDONLY
	switch {
	case m.Write && m.Only:
		flags = os.O_WRONLY
	case m.Write:
		flags = os.O_RDWR
	}
	if m.Create {
		flags |= os.O_CREATE
		if !m.Keep {
			flags |= os.O_TRUNC
		}
	}
	return flags
}

// Open opens a file. A direct open that the file system refuses gives a *record.Failure of kind "refused"; other errors
// say what to do.
func Open(path string, m Mode) (*Handle, error) {
	h, err := open(path, m)
	if err != nil && m.Direct && IsRefusal(err) {
		return nil, Refused(path, 0, err)
	}
	if err != nil {
		return nil, Explain("open", path, err)
	}
	return h, nil
}
