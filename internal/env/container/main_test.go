package container

import (
	"testing"

	"tare/internal/env/container/dockertest"
	"tare/internal/env/envtest"
)

func TestMain(m *testing.M) {
	stop := dockertest.Share()
	defer stop()
	envtest.Main(m, Infos())
}
