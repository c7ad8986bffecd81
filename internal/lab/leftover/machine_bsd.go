//go:build darwin || freebsd

package leftover

import (
	"os"
	"runtime"
	"syscall"
)

// machine tells this machine from others. A laptop's host name may be another in each network.
func machine() string {
	name := "kern.uuid"
	if runtime.GOOS == "freebsd" {
		name = "kern.hostuuid"
	}
	id, err := syscall.Sysctl(name)
	if err != nil {
		id, _ = os.Hostname()
	}
	return id
}
