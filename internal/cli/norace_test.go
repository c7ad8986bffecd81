//go:build !race

package cli_test

// raced tells whether the race detector looks on.
const raced = false
