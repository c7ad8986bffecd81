package command

import "syscall"

const rssUnit = 1024

// sysAttr makes the child die with the thread that started it, which is locked to the trial's goroutine, so that a
// killed worker leaves nothing running.
func sysAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
