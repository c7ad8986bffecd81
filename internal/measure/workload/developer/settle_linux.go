package developer

import (
	"os"

	"golang.org/x/sys/unix"
)

// settle brings the file system that holds path to stable storage, so that what was prepared is not written back while
// the clock runs.
func settle(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}
