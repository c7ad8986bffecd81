//go:build !linux

package file

func adviseHuge([]byte) {}
