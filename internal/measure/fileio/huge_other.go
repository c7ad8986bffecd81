//go:build !linux

package fileio

func adviseHuge([]byte) {}
