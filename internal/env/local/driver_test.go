package local

import (
	"testing"

	"tare/internal/env"
	"tare/internal/env/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m, Infos()) }

func TestContract(t *testing.T) {
	envtest.Run(t, Driver{}, envtest.Options{
		Spec: env.Spec{Driver: "local"},
		Impossible: []env.Spec{
			{Driver: "local", Settings: map[string]string{"dir": "/proc/nowhere"}},
			{Driver: "local", Settings: map[string]string{"cpus": "1023"}},
		},
	})
}
