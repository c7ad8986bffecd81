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

	"tare/internal/lab/driver/limited"
	"tare/internal/lab/env"
	"tare/internal/lab/stack"
	"tare/internal/measure/sysinfo"
	"tare/internal/sys/cgroup"
)

// ErrUnsupported is the error on systems without namespaces.
var ErrUnsupported = errors.New("the built-in container needs Linux")

// Infos lists the drivers of this package.
func Infos() []env.Info {
	return []env.Info{{
		Name: "namespace",
		Doc: "The built-in container: namespaces of this kernel and an overlay of the host's files; nothing to " +
			"install.",
		Settings: append([]env.Setting{
			{Name: "root", Default: "/", Doc: "Directory that becomes the container's root, unchanged, without " +
				"other mounts below it.", Check: env.CheckAbsolute},
			stack.EnvSetting(),
			{Name: "net", Default: "none", Doc: "none: a separate network with only a loopback; host: the host's.",
				Check: env.OneOf("none", "host")},
			{Name: "user", Default: "auto",
				Doc: "host: root is the host's root; own: a user namespace; auto: host if tare runs as root, else " +
					"own.",
				Check: env.OneOf("auto", "host", "own")},
			{Name: "cpus", Default: "all", Doc: "Processors the agent may use, such as 0 or 0-1,3.",
				Check: env.Parsed(cgroup.ParseCPUs)},
			{Name: "dir", Default: "a temporary directory",
				Doc:   "Directory for everything written inside, which must support an overlay's upper layer.",
				Check: env.CheckAbsolute},
		}, limits()...),
		Mounts: mountKinds(),
		Driver: Driver{},
		Nature: env.Nature{Kernel: env.KernelHost, Files: env.FilesHost, HostName: true},
		Here:   "box",
		Probe:  probe,
		Has:    has,
		// Files written inside go to the overlay's upper layer.
		FreeSpace: func(s env.Spec, scratch string) env.FreeSpace {
			dir := s.Get("dir", scratch)
			return env.FreeSpace{Bytes: sysinfo.Free(dir), Where: dir, Remedy: "another directory with dir="}
		},
		Reach: reach,
		// Its files are in directories of package leftover, which the local driver cleans.
	}}
}

// limits are the settings of control groups.
func limits() []env.Setting { return limited.Settings(false) }

// has tells whether the stack that a container is to have is installed, and whether its limits can be set.
func has(ctx context.Context, s env.Spec) env.Status {
	if got := limited.Has(s, limits()); !got.OK {
		return got
	}
	return stack.Has(ctx, s)
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
