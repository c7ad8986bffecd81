//go:build !linux

package libvirt

import "net"

// peer is not known: libvirt runs QEMU on Linux.
func peer(*net.UnixConn) int { return 0 }
