package namespace

import (
	"testing"

	"tare/internal/lab/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m, Infos()) }
