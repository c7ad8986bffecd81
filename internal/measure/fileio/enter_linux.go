package fileio

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Enter makes an open directory the working directory until leave is called, as programs are started in theirs. Calls
// then name files relative to AT_FDCWD. It matters: in a process with several threads, such as every Go program, the
// kernel counts references to an open directory in each call that names it, but not to the working directory. That is
// 80 of 1500 ns of an lstat.
func Enter(dir uintptr) (leave func(), err error) {
	var before int
	err = Retry(func() (err error) {
		before, err = unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the working directory: %w", err)
	}
	if err := unix.Fchdir(int(dir)); err != nil {
		return nil, errors.Join(err, unix.Close(before))
	}
	return func() {
		_ = unix.Fchdir(before)
		_ = unix.Close(before)
	}, nil
}
