// Package namespace is the container that needs nothing installed: fresh mount, pid, ipc, uts and network namespaces,
// and a user namespace where tare is not root, with an overlay of a directory tree, usually this host's own, as the
// root.
//
// It is opinionated about cost: nothing is unpacked and no daemon asked, so that what a trial inside costs more than
// one outside is what the kernel charges for namespaces and overlayfs alone.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tare/internal/lab/env"
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
			{Name: "root", Default: "/", Doc: "Directory that is the container's root; it is not written to. Other " +
				"mounts below it are not seen inside.", Check: env.CheckAbsolute},
			{Name: "net", Default: "none", Doc: "none: a network of its own with only a loopback; host: the host's.",
				Check: env.OneOf("none", "host")},
			{Name: "user", Default: "auto",
				Doc: "host: root is the host's root; own: a user namespace; auto: host when tare runs as " +
					"root, else own.",
				Check: env.OneOf("auto", "host", "own")},
			{Name: "cpus", Default: "all", Doc: "Processors the agent may use, as a list such as 0 or 0-1,3.",
				Check: func(v string) error {
					_, err := parseCPUs(v)
					return err
				}},
			{Name: "dir", Default: "a temporary directory",
				Doc: "Directory for what is written inside; its file system must be able to carry an overlay's " +
					"upper layer.", Check: env.CheckAbsolute},
		},
		Mounts: mountKinds(),
		Driver: Driver{},
		Probe:  probe,
		// What is written inside goes into the overlay's upper layer.
		FreeSpace: func(s env.Spec, scratch string) env.FreeSpace {
			dir := s.Get("dir", scratch)
			return env.FreeSpace{Bytes: sysinfo.Free(dir), Where: dir, Remedy: "another directory with dir="}
		},
		Reach: reach,
		// Its files are in directories made with package leftover, which the local driver cleans.
	}}
}

// Driver opens built-in containers.
type Driver struct{}

// Open sets a container up once and takes it down again, which proves that it works here. Each agent gets a container
// of its own, over the same root.
func (Driver) Open(ctx context.Context, o env.Options) (env.Env, error) { return open(ctx, o) }

// reach tells whether the host's loopback is the container's.
func reach(s env.Spec) error {
	if s.Get("net", "none") == "host" {
		return nil
	}
	return errors.New(s.Name + " has a network of its own with only a loopback (net=none); use net=host")
}

// maxCPU is the largest processor number that can be named: the size of the kernel's default mask.
const maxCPU = 1023

// parseCPUs reads a list of processors such as 0-1,3. Empty text is an empty list.
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
