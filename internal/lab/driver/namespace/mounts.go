package namespace

import (
	"context"
	"runtime"

	"tare/internal/lab/env"
)

// The kinds of mounts of a built-in container.
const (
	bind  = "bind"
	tmpfs = "tmpfs"
)

func mountKinds() []env.MountKind {
	probe := func(context.Context) env.Status {
		return env.Status{OK: runtime.GOOS == "linux", Detail: ErrUnsupported.Error()}
	}
	return []env.MountKind{
		{
			Name: bind, Shared: true, Probe: probe,
			Doc: "A directory of the host, bound into the container: the same file system, without the overlay.",
			Settings: []env.Setting{{Name: "dir", Default: "the run's own directory",
				Doc:   "Directory of the host on whose file system the folder is made; a new directory is made in it.",
				Check: env.CheckAbsolute}},
		},
		{
			Name: tmpfs, Probe: probe,
			Doc: "A file system in memory (tmpfs).",
			Settings: []env.Setting{{Name: "size", Default: "50% of memory", Doc: "Largest size, such as 1GiB.",
				Check: env.CheckMemory}},
		},
	}
}

// target is the path of a mount in the container: at its top level, which is writable in both layouts of the root.
func target(name string) string { return "/tare-mounts/" + name }
