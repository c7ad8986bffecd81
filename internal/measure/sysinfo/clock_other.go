//go:build !amd64 && !arm64

package facts

const (
	canCount       = false
	cyclesPerRound = 0
)

func countCycles(int64) {}
