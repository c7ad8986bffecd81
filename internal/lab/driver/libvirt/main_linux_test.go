package libvirt

import (
	"testing"

	"tare/internal/lab/envtest"
	"tare/internal/lab/libvirttest"
)

func TestMain(m *testing.M) {
	stop := libvirttest.Share()
	defer stop()
	envtest.Main(m, Infos())
}
