//go:build amd64 || arm64

package sysinfo

const (
	canCount       = true
	cyclesPerRound = 64
)

// countCycles takes 64 cycles a round: that many instructions in one chain of dependence. Counting the rounds goes on
// beside it.
//
//go:noescape
func countCycles(rounds int64)
