package durability

import "golang.org/x/sys/unix"

const dsync = unix.O_SYNC // the stronger promise; O_DSYNC came late and has no constant
