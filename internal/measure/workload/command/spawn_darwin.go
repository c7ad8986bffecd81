package command

import "syscall"

const rssUnit = 1 // macOS counts ru_maxrss in bytes

func sysAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
