package durability

import "golang.org/x/sys/unix"

const dsync = unix.O_SYNC // the stronger guarantee; O_DSYNC is newer and has no constant
