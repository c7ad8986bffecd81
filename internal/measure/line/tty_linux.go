package line

import "golang.org/x/sys/unix"

// setRaw makes a terminal pass all bytes unchanged, at a speed.
func setRaw(fd, baud int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS2)
	if err != nil {
		return err
	}
	raw(t)
	t.Cflag = t.Cflag&^(unix.CBAUD|unix.CBAUD<<unix.IBSHIFT) | unix.BOTHER | unix.BOTHER<<unix.IBSHIFT
	t.Ispeed, t.Ospeed = uint32(baud), uint32(baud)
	return unix.IoctlSetTermios(fd, unix.TCSETS2, t)
}
