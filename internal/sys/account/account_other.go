//go:build !unix

package account

import (
	"errors"
	"os"
	"syscall"
)

// User is the user that a server runs as: always the user of this process.
type User struct{ Name string }

// Choose fails: servers are started on Unix only.
func Choose(...string) (User, error) { return User{}, errors.ErrUnsupported }

// Give changes nothing.
func (u *User) Give(string) error { return nil }

// GiveIn changes nothing.
func (u *User) GiveIn(*os.Root, string) error { return nil }

// Owns is always true.
func (u *User) Owns(os.FileInfo) bool { return true }

// ReachTo changes nothing.
func (u *User) ReachTo(string) error { return nil }

// Privileged is always false.
func (u *User) Privileged() bool { return false }

// Become changes nothing.
func (u *User) Become(*syscall.SysProcAttr) {}
