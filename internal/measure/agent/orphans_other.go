//go:build !linux

package agent

import "os"

// self is the worker's executable.
func self() (string, error) { return os.Executable() }

// adoptOrphans does nothing here: only Linux lets a process adopt its grandchildren.
func adoptOrphans() {}

// endOrphans does nothing here.
func endOrphans(func(pid int) bool) {}
