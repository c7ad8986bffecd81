package qemu

import (
	"flag"
	"os"
	"testing"

	"tare/internal/lab/envtest"
)

// testsAtOnce is how many tests run in parallel, unless -parallel is given: one with machines at work, see turn, and
// those that wait: for killed servers, for things that must not happen. Tests that change this process's environment
// variables, and those that measure time, run alone.
const testsAtOnce = "4"

func TestMain(m *testing.M) {
	if os.Getenv(victimVar) != "" {
		os.Exit(victim())
	}
	if err := flag.Set("test.parallel", testsAtOnce); err != nil {
		panic(err)
	}
	envtest.Main(m, Infos())
}
