package proc

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

func sysProcAttr() *syscall.SysProcAttr {
	// Pdeathsig follows the thread that forked, not the process; Go ends threads only when a goroutine locked to one
	// returns, and nothing in the controller does that (golang/go#27505).
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// GentleDeath lets a child made with Command get SIGTERM instead of SIGKILL when tare itself is killed, for a wrapper
// that has something to clean up. Elsewhere than on Linux a child is not told at all.
func GentleDeath(cmd *Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM }

// wait is cmd.Wait, except that the child's process group is killed when the child has ended and sweep says so. The
// child is a zombie at that moment, so that its number cannot have become another group's.
func wait(cmd *Cmd, sweep func() bool) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if sweep() {
		kill(cmd)
	}
	return cmd.Wait()
}
