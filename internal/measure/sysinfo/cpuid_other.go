//go:build !amd64

package sysinfo

func cpuidSignature() string { return "" }

func cpuidBrand() string { return "" }
