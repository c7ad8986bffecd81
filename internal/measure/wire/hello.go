package wire

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"tare/internal/version"
)

// NewHello describes this build and process.
func NewHello() Hello {
	return Hello{
		Protocol: Protocol, Version: version.Version, Build: version.Build,
		OS: runtime.GOOS, Arch: runtime.GOARCH, PID: os.Getpid(),
		MonoNS: Now(), WallNS: time.Now().UnixNano(),
	}
}

// NewWelcome answers a Hello on behalf of this build.
func NewWelcome(runID string) Welcome {
	return Welcome{Protocol: Protocol, Build: version.Build, RunID: runID}
}

// CheckPeer refuses a peer of another protocol or build, naming both. who is "agent" or "controller".
func CheckPeer(who string, protocol int, build string) error {
	if protocol == Protocol && build == version.Build {
		return nil
	}
	return fmt.Errorf("the %s is from another build: it has protocol %d, build %.64q, but this is protocol %d, build "+
		"%q; figures of different builds cannot be compared, so use agents built together with this tare",
		who, protocol, build, Protocol, version.Build)
}

// VersionLine is the line that an agent prints as its version.
func VersionLine() string {
	return fmt.Sprintf("tare-agent %s build %s %s/%s", version.Version, version.Build, runtime.GOOS, runtime.GOARCH)
}

// ParseVersionLine finds a version line in a program's output, which may hold noise before and after it, and returns
// its build id and platform.
func ParseVersionLine(output string) (build, goos, goarch string, ok bool) {
	for line := range strings.Lines(output) {
		f := strings.Fields(line)
		if len(f) != 5 || f[0] != "tare-agent" || f[2] != "build" {
			continue
		}
		if goos, goarch, ok = strings.Cut(f[4], "/"); ok {
			return f[3], goos, goarch, true
		}
	}
	return "", "", "", false
}
