package proc

import "syscall"

func sysProcAttr() *syscall.SysProcAttr {
	// Pdeathsig follows the thread that forked, not the process; Go ends threads only when a goroutine locked to one
	// returns, and nothing in the controller does that (golang/go#27505).
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
