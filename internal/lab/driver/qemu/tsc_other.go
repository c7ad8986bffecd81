//go:build !amd64

package qemu

// hostTSC is 0, not known: which counter TCG gives to an x86 guest here depends on QEMU's build.
func hostTSC() int64 { return 0 }
