package qemu

import (
	"os"
	"testing"

	"tare/internal/env/envtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(victimVar) != "" {
		os.Exit(victim())
	}
	envtest.Main(m, Infos())
}
