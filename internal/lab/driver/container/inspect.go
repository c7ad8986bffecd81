package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"tare/internal/record"
	"tare/internal/unit"
)

// engineInfo is an engine's description of itself.
type engineInfo struct {
	Engine, Server, Client string // versions; Client is "" if the client is the engine
	OS, Arch               string // GOOS, GOARCH of the machine on which the containers run
	Kernel, System         string
	Storage, CgroupVersion string
	CgroupDriver, Runtime  string
	Security               []string
	Rootless               bool
}

// String is the engine in one line, for `tare doctor`.
func (a engineInfo) String() string {
	s := a.Engine + " " + a.Server
	if a.Client != "" && a.Client != a.Server {
		s += " (client " + a.Client + ")"
	}
	return fmt.Sprintf("%s, storage %s, cgroup v%s, runtime %s", s, a.Storage, a.CgroupVersion, a.Runtime)
}

// goArch translates the kernel's names of architectures, which Docker uses, to Go's.
func goArch(name string) string {
	if a, ok := map[string]string{
		"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386", "armv7l": "arm", "armv6l": "arm",
		"loongarch64": "loong64",
	}[name]; ok {
		return a
	}
	return name
}

// parseInfo parses the JSON of `info`.
func parseInfo(engine string, text []byte) (engineInfo, error) {
	a := engineInfo{Engine: engine}
	if engine == "podman" {
		return a.podman(text)
	}
	return a.docker(text)
}

func (a engineInfo) docker(text []byte) (engineInfo, error) {
	var in struct {
		ServerVersion, OSType, Architecture, KernelVersion, OperatingSystem string
		Driver, CgroupVersion, CgroupDriver, DefaultRuntime                 string
		SecurityOptions, ServerErrors                                       []string
		ClientInfo                                                          struct{ Version string }
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return a, fmt.Errorf("read docker info: %w", err)
	}
	if in.ServerVersion == "" {
		if len(in.ServerErrors) > 0 {
			return a, errors.New(strings.Join(in.ServerErrors, "; "))
		}
		return a, errors.New("read docker info: it has no server version")
	}
	a.Server, a.Client = in.ServerVersion, in.ClientInfo.Version
	a.OS, a.Arch, a.Kernel, a.System = in.OSType, goArch(in.Architecture), in.KernelVersion, in.OperatingSystem
	a.Storage, a.CgroupVersion, a.CgroupDriver, a.Runtime = in.Driver, in.CgroupVersion, in.CgroupDriver,
		in.DefaultRuntime
	a.Security = in.SecurityOptions
	a.Rootless = slices.Contains(in.SecurityOptions, "name=rootless")
	return a, nil
}

func (a engineInfo) podman(text []byte) (engineInfo, error) {
	var in struct {
		Host struct {
			Arch, OS, Kernel, CgroupVersion, CgroupManager string
			OCIRuntime                                     struct{ Name string }
			Distribution                                   struct{ Distribution, Version string }
			Security                                       struct {
				Rootless, SeccompEnabled, AppArmorEnabled, SELinuxEnabled bool
			}
		}
		Store   struct{ GraphDriverName string }
		Version struct{ Version string }
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return a, fmt.Errorf("read podman info: %w", err)
	}
	if in.Version.Version == "" {
		return a, errors.New("read podman info: it has no version")
	}
	h := in.Host
	a.Server, a.OS, a.Arch, a.Kernel = in.Version.Version, h.OS, goArch(h.Arch), h.Kernel
	a.System = strings.TrimSpace(h.Distribution.Distribution + " " + h.Distribution.Version)
	a.Storage, a.CgroupVersion, a.CgroupDriver = in.Store.GraphDriverName, strings.TrimPrefix(h.CgroupVersion, "v"),
		h.CgroupManager
	a.Runtime, a.Rootless = h.OCIRuntime.Name, h.Security.Rootless
	for _, s := range []struct {
		on   bool
		name string
	}{{h.Security.SeccompEnabled, "seccomp"}, {h.Security.AppArmorEnabled, "apparmor"},
		{h.Security.SELinuxEnabled, "selinux"}} {
		if s.on {
			a.Security = append(a.Security, "name="+s.name)
		}
	}
	return a, nil
}

// image is the part of `image inspect` that tare uses.
type image struct {
	ID, OS, Arch string
}

func parseImage(text []byte) (image, error) {
	var in []struct{ Id, Os, Architecture string }
	if err := json.Unmarshal(text, &in); err != nil {
		return image{}, fmt.Errorf("read image inspect: %w", err)
	}
	if len(in) != 1 || in[0].Os == "" || in[0].Architecture == "" {
		return image{}, errors.New("read image inspect: it does not say the image's platform")
	}
	return image{ID: in[0].Id, OS: in[0].Os, Arch: goArch(in[0].Architecture)}, nil
}

// containerInfo is the part of `inspect` of a container that tare uses. The field names are the engines' own.
type containerInfo struct {
	Id, Name, Image, Driver, AppArmorProfile, OCIRuntime string
	Created                                              time.Time
	State                                                struct {
		Status  string
		Running bool
	}
	Config struct {
		User   string
		Image  string
		Labels map[string]string
	}
	HostConfig struct {
		NetworkMode, Runtime, CpusetCpus, CgroupnsMode string
		Memory, MemorySwap, NanoCpus, ShmSize          int64
		CpuQuota, CpuPeriod                            int64
		PidsLimit                                      *int64
		Privileged, ReadonlyRootfs                     bool
		SecurityOpt, CapAdd, CapDrop                   []string
		Ulimits                                        []struct {
			Name       string
			Soft, Hard int64
		}
		Tmpfs map[string]string
		groupLimits
	}
	Mounts []struct{ Type, Destination, Driver, Mode string }
}

func parseInspect(text []byte) ([]containerInfo, error) {
	var in []containerInfo
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("read inspect: %w", err)
	}
	for _, c := range in {
		if c.Id == "" {
			return nil, errors.New("read inspect: a container without an id")
		}
	}
	return in, nil
}

// cpus is the limit of CPU time, in CPUs; 0 means none.
func (c *containerInfo) cpus() float64 {
	h := &c.HostConfig
	switch {
	case h.NanoCpus > 0:
		return float64(h.NanoCpus) / 1e9
	case h.CpuQuota > 0 && h.CpuPeriod > 0:
		return float64(h.CpuQuota) / float64(h.CpuPeriod)
	case h.CpuQuota > 0:
		return float64(h.CpuQuota) / 100_000 // the kernel's default period, µs
	}
	return 0
}

// seccomp is the profile in effect: "unconfined", "default" or the engine's word.
func (c *containerInfo) seccomp(a engineInfo) string {
	for _, o := range c.HostConfig.SecurityOpt {
		if v, ok := strings.CutPrefix(o, "seccomp="); ok {
			if strings.HasPrefix(strings.TrimSpace(v), "{") {
				return "custom"
			}
			return v
		}
	}
	if c.HostConfig.Privileged {
		return "unconfined"
	}
	for _, o := range a.Security {
		if rest, ok := strings.CutPrefix(o, "name=seccomp"); ok {
			if p, ok := strings.CutPrefix(rest, ",profile="); ok {
				return p
			}
			return "default"
		}
	}
	return "unconfined"
}

// facts returns the limits and other settings in effect, not those that were requested.
func (c *containerInfo) facts(a engineInfo, img image, dir string) record.Facts {
	h := &c.HostConfig
	runtime := h.Runtime
	if c.OCIRuntime != "" {
		runtime = c.OCIRuntime // podman's HostConfig.Runtime is always "oci"
	}
	settings := map[string]string{
		"network":    h.NetworkMode,
		"runtime":    runtime,
		"user":       c.Config.User,
		"privileged": yesNo(h.Privileged),
		"security":   strings.Join(h.SecurityOpt, ","),
		"seccomp":    c.seccomp(a),
		"cpuset":     h.CpusetCpus,
		"dir":        dir,
		"volume":     c.volume(dir),
		"image":      c.Config.Image,
	}
	h.groupLimits.settings(settings)
	if n := c.cpus(); n > 0 {
		settings["cpus"] = strconv.FormatFloat(n, 'f', -1, 64)
	}
	if h.Memory > 0 {
		settings["memory"] = unit.FormatSize(h.Memory)
	}
	if h.MemorySwap > 0 {
		settings["memory+swap"] = unit.FormatSize(h.MemorySwap)
	}
	if h.PidsLimit != nil && *h.PidsLimit > 0 {
		settings["pids"] = strconv.FormatInt(*h.PidsLimit, 10)
	}
	var limits []string
	for _, u := range h.Ulimits {
		name := strings.ToLower(strings.TrimPrefix(u.Name, "RLIMIT_"))
		limits = append(limits, fmt.Sprintf("%s=%d:%d", name, u.Soft, u.Hard))
	}
	sort.Strings(limits)
	settings["ulimit"] = strings.Join(limits, ",")
	maps.DeleteFunc(settings, func(_, v string) bool { return v == "" })

	extra := map[string]string{
		"container.id":          c.Id,
		"container.image_id":    img.ID,
		"container.apparmor":    c.AppArmorProfile,
		"container.cap_add":     strings.Join(h.CapAdd, ","),
		"container.cap_drop":    strings.Join(h.CapDrop, ","),
		"container.cgroupns":    h.CgroupnsMode,
		"container.read_only":   yesNo(h.ReadonlyRootfs),
		"engine.name":           a.Engine,
		"engine.version":        a.Server,
		"engine.client":         a.Client,
		"engine.system":         a.System,
		"engine.kernel":         a.Kernel,
		"engine.arch":           a.Arch,
		"engine.storage":        a.Storage,
		"engine.cgroup_version": a.CgroupVersion,
		"engine.cgroup_driver":  a.CgroupDriver,
		"engine.security":       strings.Join(a.Security, ","),
		"engine.rootless":       yesNo(a.Rootless),
	}
	maps.DeleteFunc(extra, func(_, v string) bool { return v == "" })
	return record.Facts{
		OS: img.OS, Arch: img.Arch, Kernel: a.Kernel, WorkDir: dir,
		Emulated: a.Arch != "" && img.Arch != a.Arch && !(a.Arch == "amd64" && img.Arch == "386"),
		Settings: settings, Extra: extra,
	}
}

// volume returns the type of the mount at dir: "none" for the container's own root.
func (c *containerInfo) volume(dir string) string {
	if _, ok := c.HostConfig.Tmpfs[dir]; ok {
		return "tmpfs"
	}
	for _, m := range c.Mounts {
		if m.Destination == dir {
			return m.Type
		}
	}
	return "none"
}

// addGiven adds the given settings that the engine does not report: host, pull, platform.
func addGiven(facts, given map[string]string) {
	for k, v := range given {
		if _, known := facts[k]; !known {
			facts[k] = v
		}
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
