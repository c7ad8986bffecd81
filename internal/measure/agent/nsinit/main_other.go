//go:build !linux

package nsinit

import (
	"fmt"
	"io"
)

// Main says that there are no namespaces here.
func Main(_ []string, stderr io.Writer) int {
	fmt.Fprintln(stderr, "tare: the built-in container needs Linux")
	return ExitSetup
}
