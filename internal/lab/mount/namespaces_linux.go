package mount

import (
	"golang.org/x/sys/unix"

	"tare/internal/sys/proc"
)

// privateNamespaces gives a command its own mount and PID namespaces. It is the first process there, so the kernel
// kills all others when it ends.
func privateNamespaces(cmd *proc.Cmd) {
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNS | unix.CLONE_NEWPID
}
