//go:build unix && !linux

package proc

import "syscall"

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// GentleDeath does nothing here: only Linux tells a child that its parent has died.
func GentleDeath(*Cmd) {}

// wait is cmd.Wait; then the child's process group is killed if sweep says so. No portable call waits without reaping,
// so the group's number could in theory have been taken by another group in between.
func wait(cmd *Cmd, sweep func() bool) error {
	err := cmd.Wait()
	if sweep() {
		kill(cmd)
	}
	return err
}
