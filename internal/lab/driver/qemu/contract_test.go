//go:build unix

package qemu

import (
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/lab/microvm"
	"tare/internal/measure/wire"
)

func TestContract(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	for _, machine := range []string{"q35", "microvm"} {
		t.Run(machine, func(t *testing.T) {
			if machine == "microvm" {
				repeats(t)
			}
			envtest.Run(t, driver{}, envtest.Options{
				Spec: spec("arch", "x86_64", "accel", "tcg", "machine", machine, "cpus", "2", "memory", "512MiB",
					"disk", "64MiB", "boot", "3m"), OS: "linux", Arch: "amd64", Attached: true,
				CancelAfter: []time.Duration{0, 50 * time.Millisecond, time.Second},
				Kill: func(t testing.TB, e env.Env, _ wire.Hello) {
					if err := syscall.Kill(e.(*vm).Pid(), syscall.SIGKILL); err != nil {
						t.Fatal(err)
					}
				},
				Impossible: []env.Spec{
					spec("cache", "writeback", "aio", "native"),
					spec("kernel", "/etc/hostname", "arch", "x86_64", "accel", "tcg", "disk", "none"),
				},
			})
		})
	}
}
