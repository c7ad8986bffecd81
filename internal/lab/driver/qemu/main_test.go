package qemu

import (
	"flag"
	"os"
	"testing"

	"tare/internal/lab/envtest"
)

// machinesAtOnce is how many tests with machines run in parallel, unless -parallel is given. They mostly wait: for
// disks, for killed servers, for things that must not happen. Tests that change this process's environment variables,
// and those that measure time, run alone.
const machinesAtOnce = "3"

func TestMain(m *testing.M) {
	if os.Getenv(victimVar) != "" {
		os.Exit(victim())
	}
	if err := flag.Set("test.parallel", machinesAtOnce); err != nil {
		panic(err)
	}
	envtest.Main(m, Infos())
}
