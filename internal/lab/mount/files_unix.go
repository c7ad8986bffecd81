//go:build unix

package mount

import "golang.org/x/sys/unix"

// openFiles is how many files a server may open: the hard limit of this process, but not more than virtiofsd's own
// default.
func openFiles() uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return min(uint64(l.Max), 1000000)
}
