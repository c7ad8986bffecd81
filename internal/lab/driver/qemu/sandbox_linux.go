package qemu

// sandboxArguments turns on QEMU's system call filter, which exists on Linux.
func sandboxArguments() []string {
	return []string{"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny"}
}
