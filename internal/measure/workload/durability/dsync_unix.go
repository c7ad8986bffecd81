//go:build unix && !freebsd

package durability

import "golang.org/x/sys/unix"

const dsync = unix.O_DSYNC
