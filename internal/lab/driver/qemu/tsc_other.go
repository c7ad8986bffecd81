//go:build !amd64

package qemu

// hostTSC is not known here: what TCG gives an x86 guest as its counter depends on QEMU's build.
func hostTSC() int64 { return 0 }
