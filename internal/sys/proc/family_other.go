//go:build !linux

package proc

// Family is not known here beyond the process itself.
func Family(pid int) []int { return []int{pid} }

// Name is not known here.
func Name(int) string { return "" }

// Parent is not known here.
func Parent(int) int { return 0 }
