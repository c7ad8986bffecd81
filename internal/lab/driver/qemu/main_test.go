package qemu

import (
	"flag"
	"os"
	"testing"

	"tare/internal/lab/envtest"
)

// machinesAtOnce is how many tests with machines run beside each other, where -parallel does not say. They wait more
// than they compute: for disks, for servers that were killed, for what must not come. Tests that change this process's
// environment, and those that measure how long something takes, run alone.
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
