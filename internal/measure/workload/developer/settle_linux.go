package developer

import (
	"os"

	"golang.org/x/sys/unix"
)

// settle flushes the file system of path, so that the prepared files are not written back while the clock runs.
func settle(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}
