//go:build unix

package microvm

import (
	"os/user"
)

// currentUser is the user's name for apt's APT::Sandbox::User.
func currentUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "root"
}
