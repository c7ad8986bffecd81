package restore

import (
	"testing"

	"tare/internal/workload/thread/trialtest"
)

func TestRestore(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "restore")
	for _, tools := range []string{own, environment} {
		b, err := trialtest.Try(t, k, map[string]string{"size": "1MiB", "tools": tools, "load":"postgresql"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(b.Metrics, b.Checks, b.State)
	}
}
