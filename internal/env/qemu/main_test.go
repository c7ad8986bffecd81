package qemu

import (
	"testing"

	"tare/internal/env/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m, Infos()) }
