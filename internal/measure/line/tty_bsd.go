//go:build darwin || freebsd

package line

import "golang.org/x/sys/unix"

// setRaw makes a terminal pass all bytes unchanged, at a speed.
func setRaw(fd, baud int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TIOCGETA)
	if err != nil {
		return err
	}
	raw(t)
	setSpeed(&t.Ispeed, baud)
	setSpeed(&t.Ospeed, baud)
	return unix.IoctlSetTermios(fd, unix.TIOCSETA, t)
}

// setSpeed is for the types that systems have for it.
func setSpeed[N uint32 | uint64](field *N, baud int) { *field = N(baud) }
