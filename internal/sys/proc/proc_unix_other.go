//go:build unix && !linux

package proc

import "syscall"

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// GentleDeath does nothing here: only Linux can signal a child when its parent dies.
func GentleDeath(*Cmd) {}

// wait is cmd.Wait; then the child's process group is killed if sweep is set. No portable call waits without reaping,
// so in theory another group could have taken the number in between.
func wait(cmd *Cmd, sweep func() bool) error {
	err := cmd.Wait()
	if sweep() {
		kill(cmd)
	}
	return err
}
