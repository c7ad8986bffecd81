package container

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/record"
)

// reach tells, from a spec alone, whether the container shares this machine's loopback. For a running container only
// the engine knows that.
func reach(s env.Spec) error {
	if s.Get("container", "") != "" || s.Get("network", "") == "host" {
		return nil
	}
	return fmt.Errorf("%s has a network of its own (network=%s); use network=host", s.Name,
		s.Get("network", "the engine's"))
}

// loopback tells it for an existing container: the container must use the network of the engine's machine, and that
// must be this machine.
func loopback(name string, f *record.Facts) (string, error) {
	if n := f.Settings["network"]; n != "host" {
		return "", fmt.Errorf("%s has a network of its own (network=%s); use network=host", name, n)
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	if runtime.GOOS != "linux" || f.Extra["engine.kernel"] != "" &&
		f.Extra["engine.kernel"] != strings.TrimSpace(string(kernel)) {
		return "", fmt.Errorf("%s runs on another kernel, so it cannot reach this machine's loopback; "+
			env.Ways, name)
	}
	return "127.0.0.1", nil
}

// Loopback implements env.LoopbackProvider.
func (c *container) Loopback() (string, error) { return loopback(c.opts.Name, &c.facts) }

// Loopback implements env.LoopbackProvider.
func (c *existingContainer) Loopback() (string, error) { return loopback(c.opts.Name, &c.facts) }
