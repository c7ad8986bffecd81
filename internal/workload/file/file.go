package file

// Mode says how a file is opened: for reading, unless it says more.
type Mode struct {
	Write  bool // for reading and writing
	Create bool // made when it is missing, emptied when it is there; needs Write
	Direct bool // past the page cache: O_DIRECT, F_NOCACHE, FILE_FLAG_NO_BUFFERING
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
