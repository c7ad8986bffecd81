//go:build unix && !linux

package account

import "syscall"

// pass fails: there are no capabilities here.
func (u *User) pass(closed *ClosedError) error { return closed }

func (u *User) keepReach(*syscall.SysProcAttr) {}
