//go:build unix

package proc

import "syscall"

func prepare(cmd *Cmd) {
	cmd.SysProcAttr = sysProcAttr()
	cmd.Cancel = func() error { return terminate(cmd) }
}

// terminate asks the child's whole process group to stop.
func terminate(cmd *Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

// kill ends the child's whole process group at once.
func kill(cmd *Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
