package container

import (
	"os"
	"testing"

	"tare/internal/env/container/dockertest"
)

func TestMain(m *testing.M) { os.Exit(dockertest.Main(m)) }
