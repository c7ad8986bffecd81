//go:build unix && !linux

package sql

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MaxPath is the longest path of a socket that fits into a system call, in bytes (unix(4)).
const MaxPath = 103

func shortPath(path string) (string, func(), error) {
	return "", nil, fmt.Errorf("the path of the socket has %d bytes, more than %d", len(path), MaxPath)
}

// canUntold is false: on these systems, system calls go through the C library.
const canUntold = false

func untoldRead(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

func untoldWrite(fd int, b []byte) (int, error) { return unix.Write(fd, b) }
