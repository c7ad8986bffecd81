// Package namespace is the built-in container, which needs nothing installed: new mount, PID, IPC, UTS and network
// namespaces, and a user namespace if tare does not run as root. Its root is an overlay of a directory tree, usually of
// this host's root.
//
// It is opinionated about cost. Nothing is unpacked and there is no daemon, so a trial inside costs more than one
// outside only by what the kernel takes for namespaces and overlayfs.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/lab/stack"
	"tare/internal/measure/sysinfo"
)

// ErrUnsupported is the error on systems without namespaces.
var ErrUnsupported = errors.New("the built-in container needs Linux")

// Infos lists the drivers of this package.
func Infos() []env.Info {
	return []env.Info{{
		Name: "namespace",
		Doc: "The built-in container: namespaces of this kernel and an overlay of the host's files; nothing to " +
			"install.",
		Settings: []env.Setting{
			{Name: "root", Default: "/", Doc: "Directory that becomes the container's root; it stays unchanged. " +
				"Other mounts below it are not visible inside.", Check: env.CheckAbsolute},
			stack.EnvSetting(),
			{Name: "net", Default: "none", Doc: "none: a separate network with only a loopback; host: the host's.",
				Check: env.OneOf("none", "host")},
			{Name: "user", Default: "auto",
				Doc: "host: root is the host's root; own: a user namespace; auto: host if tare runs as " +
					"root, else own.",
				Check: env.OneOf("auto", "host", "own")},
			{Name: "cpus", Default: "all", Doc: "Processors the agent may use, as a list such as 0 or 0-1,3.",
				Check: func(v string) error {
					_, err := parseCPUs(v)
					return err
				}},
			{Name: "dir", Default: "a temporary directory",
				Doc: "Directory for everything written inside; its file system must support an overlay's " +
					"upper layer.", Check: env.CheckAbsolute},
		},
		Mounts: mountKinds(),
		Driver: Driver{},
		Probe:  probe,
		Has:    stack.Has,
		// Files written inside go to the overlay's upper layer.
		FreeSpace: func(s env.Spec, scratch string) env.FreeSpace {
			dir := s.Get("dir", scratch)
			return env.FreeSpace{Bytes: sysinfo.Free(dir), Where: dir, Remedy: "another directory with dir="}
		},
		Reach: reach,
		// Its files are in directories of package leftover, which the local driver cleans.
	}}
}

// Driver opens built-in containers.
type Driver struct{}

// Open sets up a container once and takes it down, to prove that it works here. Each agent gets a new container, with
// the same root.
func (Driver) Open(ctx context.Context, o env.Options) (env.Env, error) { return open(ctx, o) }

// reach tells whether the container shares the host's loopback.
func reach(s env.Spec) error {
	if s.Get("net", "none") == "host" {
		return nil
	}
	return errors.New(s.Name + " has a separate network with only a loopback (net=none); use net=host")
}

// maxCPU is the largest processor number that is accepted: the size of the kernel's default mask.
const maxCPU = 1023

// parseCPUs parses a list of processors such as 0-1,3. Empty text is an empty list.
func parseCPUs(list string) ([]int, error) {
	var cpus []int
	if list == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		a, err1 := strconv.ParseUint(low, 10, 16)
		b, err2 := strconv.ParseUint(high, 10, 16)
		if err1 != nil || err2 != nil || a > b || b > maxCPU || len(cpus) > maxCPU {
			return nil, fmt.Errorf("%q is not a list of processors such as 0 or 0-1,3", list)
		}
		for n := a; n <= b; n++ {
			cpus = append(cpus, int(n))
		}
	}
	return cpus, nil
}
