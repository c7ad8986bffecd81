package facts

import (
	"context"
	"os"
	"runtime"

	"tare/internal/record"
)

// Collect describes the system as seen from this process. workDir is where file workloads run; it may be empty.
func Collect(ctx context.Context, workDir string) record.Facts {
	f := record.Facts{OS: runtime.GOOS, Arch: runtime.GOARCH, Threads: runtime.NumCPU(), WorkDir: workDir}
	f.Hostname, _ = os.Hostname()
	return f
}
