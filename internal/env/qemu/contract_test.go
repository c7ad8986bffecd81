package qemu

import (
	"syscall"
	"testing"
	"time"

	"tare/internal/env"
	"tare/internal/env/envtest"
	"tare/internal/wire"
)

func spec(settings ...string) env.Spec {
	s := env.Spec{Name: "vm", Driver: name, Settings: map[string]string{}}
	for i := 0; i < len(settings); i += 2 {
		s.Settings[settings[i]] = settings[i+1]
	}
	return s
}

func TestContract(t *testing.T) {
	for _, machine := range []string{"q35", "microvm"} {
		t.Run(machine, func(t *testing.T) {
			envtest.Run(t, driver{}, envtest.Options{
				Spec: spec("accel", "tcg", "machine", machine, "cpus", "2", "memory", "512MiB", "disk", "64MiB"), OS: "linux", Arch: "amd64", Attached: true,
				Patience:    2 * time.Minute,
				CancelAfter: []time.Duration{0, 50 * time.Millisecond, time.Second},
				Kill: func(t testing.TB, e env.Env, _ wire.Hello) {
					if err := syscall.Kill(e.(*vm).Pid(), syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				},
				Impossible: []env.Spec{spec("accel", "tcg", "cache", "writeback", "aio", "native")},
			})
		})
	}
}
