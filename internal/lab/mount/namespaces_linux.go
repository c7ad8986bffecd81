package mount

import (
	"golang.org/x/sys/unix"

	"tare/internal/sys/proc"
)

// privateNamespaces gives a command mounts and process numbers of its own. It is the first process there, and the
// kernel ends all others with it.
func privateNamespaces(cmd *proc.Cmd) {
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNS | unix.CLONE_NEWPID
}
