package qemu

// sandboxArguments enables QEMU's system call filter, which exists only on Linux.
func sandboxArguments() []string {
	return []string{"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny"}
}
