package mount

import (
	"crypto/rand"
	"fmt"
	"os/user"
	"strings"
)

// newSecret makes a password of 26 letters and digits (130 bits), which needs no quoting anywhere.
func newSecret() string { return strings.ToLower(rand.Text()) }

// userName is the name of the user who runs tare. The servers serve that user's files.
func userName() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("find the user's name: %w", err)
	}
	for _, r := range u.Username {
		if r <= ' ' || strings.ContainsRune(`,"'\%/:=#;@`, r) || r == 0x7f {
			return "", fmt.Errorf("the user name %q contains %q, which configuration files cannot contain", u.Username,
				r)
		}
	}
	return u.Username, nil
}
