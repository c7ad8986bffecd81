//go:build unix && !linux

package sql

import "golang.org/x/sys/unix"

// canUntold is false: on these systems, system calls go through the C library.
const canUntold = false

func untoldRead(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

func untoldWrite(fd int, b []byte) (int, error) { return unix.Write(fd, b) }
