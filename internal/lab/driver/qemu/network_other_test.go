//go:build !linux

package qemu

// networkVictim is for Linux, which has networks of the run's own.
func networkVictim(order) int { return 1 }

// networkSpaces are the namespaces of a machine's network, of which there are none here.
func networkSpaces(*vm) string { return "" }
