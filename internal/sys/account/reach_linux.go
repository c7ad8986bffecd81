package account

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pass gives the user the weakest capability of this process with which it can pass through closed directories.
func (u *User) pass(closed *ClosedError) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	for _, c := range []uint{unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE} { // the weaker one first
		if have[0].Permitted>>c&1 != 0 {
			u.reach = []uintptr{uintptr(c)}
			return nil
		}
	}
	return closed
}

func (u *User) keepReach(attr *syscall.SysProcAttr) { attr.AmbientCaps = u.reach }
