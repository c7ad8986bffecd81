package vagrant

import (
	"os"
	"testing"

	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/lab/envtest"
)

func TestMain(m *testing.M) {
	// Boxes are looked for nowhere: a test must not wait for a network.
	os.Setenv("VAGRANT_SERVER_URL", "http://127.0.0.1:1")
	stop := dockertest.Share()
	defer stop()
	envtest.Main(m, Infos())
}
