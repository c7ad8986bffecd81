// Package account chooses the user that a server runs as, because some servers refuse to run as root, and gives it what
// it needs: its files, and access to their directory.
package account

import (
	"errors"
	"fmt"
)

// ErrNone is the error of Choose if none of the users exists.
var ErrNone = errors.New("there is none of these users")

// ClosedError is the error of ReachTo if the user has no access to a directory.
type ClosedError struct {
	Dir string // the directory to be reached
	At  string // the directory above it, or Dir itself, that other users cannot enter
}

func (e *ClosedError) Error() string {
	return fmt.Sprintf("other users cannot reach %s, because they cannot enter %s", e.Dir, e.At)
}
