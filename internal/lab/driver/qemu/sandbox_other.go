//go:build !linux

package qemu

func sandboxArguments() []string { return nil }
