//go:build unix && !linux && !darwin && !freebsd

package leftover

import "os"

// machine tells this machine from others.
func machine() string {
	name, _ := os.Hostname()
	return name
}
