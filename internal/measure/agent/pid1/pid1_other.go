//go:build !linux

package pid1

import "errors"

// ErrUnsupported says that only Linux guests boot into an agent.
var ErrUnsupported = errors.New("an agent can be the first process of a machine on Linux only")

// Wanted tells whether this process is a micro-VM's first.
func Wanted() bool { return false }

// Main is never called where Wanted is false.
func Main() int { panic(ErrUnsupported) }
