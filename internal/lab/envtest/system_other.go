//go:build !linux

package envtest

import (
	"os"
	"path/filepath"
	"testing"

	"tare/internal/measure/wire"
)

// systemLeaks returns temporary files of a run; only Linux lists processes and mounts in a form to be read here.
func systemLeaks(_ testing.TB, runID, _, _ string) []string {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"+runID+"*"))
	return found
}

func killAgent(t testing.TB, _, _ string, _ wire.Hello) {
	t.Fatal("this platform's tests must say how to kill an agent: Options.Kill")
}
