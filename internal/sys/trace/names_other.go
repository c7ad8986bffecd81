//go:build !linux || (!amd64 && !arm64)

package trace

// callNames are not known here; calls have their numbers.
const callNames = ""
