package proc

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

func sysProcAttr() *syscall.SysProcAttr {
	// Pdeathsig is sent at the death of the thread that forked, not of the process; Go ends threads only when a
	// goroutine locked to one returns, which the controller never does (golang/go#27505).
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// GentleDeath makes a child made with Command get SIGTERM instead of SIGKILL when tare itself is killed, for a wrapper
// that has to clean up. On systems other than Linux a child gets no signal.
func GentleDeath(cmd *Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM }

// wait is cmd.Wait, except that the child's process group is killed after the child has ended, if sweep is set. The
// child is a zombie at that moment, so its number cannot belong to another group.
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
