//go:build unix && !linux && !darwin

package command

import "syscall"

const rssUnit = 1024

func sysAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
