//go:build !linux

package container

import (
	"os"
	"strconv"
)

// thisProcess is the owner of what this process makes.
func thisProcess() owner {
	name, _ := os.Hostname()
	return owner{Machine: name, PID: strconv.Itoa(os.Getpid())}
}
