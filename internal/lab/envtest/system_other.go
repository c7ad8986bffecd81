//go:build !linux

package envtest

import (
	"os"
	"path/filepath"
	"testing"

	"tare/internal/measure/wire"
)

// systemLeaks returns temporary files of a run. Only on Linux it can list processes and mounts, too.
func systemLeaks(_ testing.TB, runID, _, _ string) []string {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"+runID+"*"))
	return found
}

func killAgent(t testing.TB, _, _ string, _ wire.Hello) {
	t.Fatal("on this platform the tests must set Options.Kill")
}
