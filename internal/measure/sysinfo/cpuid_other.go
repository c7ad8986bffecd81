//go:build !amd64

package facts

func cpuidSignature() string { return "" }

func cpuidBrand() string { return "" }
