package vagrant

import (
	"testing"

	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/lab/envtest"
)

func TestMain(m *testing.M) {
	stop := dockertest.Share()
	defer stop()
	envtest.Main(m, Infos())
}
