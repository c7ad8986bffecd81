package mount

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"sync"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/sys/proc"
)

// versionRE finds a version in a program's output: "Version 4.17.12-Debian", "Release = V4.3".
var versionRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9]+\.[0-9][0-9A-Za-z.+~-]*`) })

// askTime bounds how long a program may take to print its version or options.
const askTime = 20 * time.Second

// programVersion finds a program and runs it with the option that prints its version.
func programVersion(ctx context.Context, name, option string) (path, version string, err error) {
	if path, err = proc.LookPath(name); err != nil {
		return "", "", fmt.Errorf("%s is not installed", name)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	out, err := proc.Run(ctx, nil, path, option)
	if err != nil {
		return "", "", fmt.Errorf("ask %s for its version: %w", path, err)
	}
	if version = versionRE().FindString(proc.Printable(out)); version == "" {
		return "", "", fmt.Errorf("%s %s printed no version: %.80q", path, option, out)
	}
	return path, version, nil
}

// probeProgram returns a Probe that tells whether a server's program is installed.
func probeProgram(name, remedy, option string) func(context.Context) env.Status {
	return func(ctx context.Context) env.Status {
		_, version, err := programVersion(ctx, name, option)
		if err != nil {
			return env.Status{Detail: err.Error(), Remedy: remedy}
		}
		return env.Status{OK: true, Detail: name + " " + version}
	}
}

func isRoot() bool { return os.Geteuid() == 0 }

// guestUsers are the files with which programs in a guest look up their user. There is only root.
func guestUsers() []guestabi.File {
	return []guestabi.File{
		{Path: "/etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/init\n")},
		{Path: "/etc/group", Mode: 0o644, Data: []byte("root:x:0:\n")},
	}
}
