package container

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tare/internal/lab/env"
	"tare/internal/lab/stack"
	"tare/internal/unit"
)

// workDir is where the agent works in a container that tare made, unless the setting dir is given.
const workDir = "/tare-work"

// settings declares the drivers' settings. Without settings everything is as with the engine's own `run`, except that
// no port is ever published.
func settings() []env.Setting {
	return append([]env.Setting{
		{Name: "host", Doc: "address of the daemon, as the engine's own option has it",
			Default: "the client's choice", Names: env.NamesAddress},
		{Name: "container", Doc: "a running container to use, instead of making one", Names: env.NamesInstance},
		stack.EnvSetting(),
		{Name: "pull", Default: "missing", Doc: "for an image that is not here: missing (pull it) or never (fail)",
			Check: env.OneOf("missing", "never")},
		{Name: "platform",
			Doc:   "the image's platform, such as linux/arm64; if it is not the machine's, it is emulated",
			Check: match(`linux/[a-z0-9]+(/[a-z0-9]+)?`, "linux/ARCH")},
		{Name: "cpus", Doc: "CPU time it may use, in CPUs, such as 1.5", Check: checkCPUs},
		{Name: "cpuset", Doc: "CPUs it may run on, such as 0-1 or 0,2",
			Check: match(`[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*`, "a list of CPUs such as 0-1 or 0,2")},
		{Name: "memory", Doc: "memory limit, such as 512MiB", Check: checkMemory},
		{Name: "network", Default: "the engine's", Doc: "the network: none, host, bridge or the name of another",
			Check: match(`[A-Za-z0-9][A-Za-z0-9_.:/-]*`, "the name of a network"), Try: []string{"host"},
			Moves: env.MovesNetwork, Names: env.NamesInstance},
		{Name: "runtime", Default: "the engine's", Doc: "OCI runtime: runc, crun, runsc, kata, ...",
			Check: match(`[A-Za-z0-9/][A-Za-z0-9_./-]*`, "the name of an OCI runtime")},
		{Name: "user", Default: "the image's", Doc: "the user: name or uid, optionally with :group",
			Check: match(`[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?`, "USER or USER:GROUP"),
			Names: env.NamesUser},
		{Name: "security", Doc: "security options, such as seccomp=unconfined,apparmor=unconfined",
			Check: checkList(`[a-z-]+([=:].+)?`, "NAME=VALUE"), Try: []string{"seccomp=unconfined"}},
		{Name: "privileged", Default: "no", Doc: "yes: all capabilities and devices",
			Check: env.OneOf("yes", "no"), Try: []string{"yes"}},
		{Name: "ulimit", Doc: "limits, such as nofile=1024:1024,nproc=1024",
			Check: checkList(`[a-z]+=(-1|[0-9]+)(:(-1|[0-9]+))?`, "NAME=SOFT[:HARD]")},
		{Name: "dir", Default: workDir,
			Doc:   "folder in the container for the work, made by the engine (owned by root unless it is the default)",
			Check: checkDir},
		{Name: "volume", Default: "none",
			Doc: "what is mounted at dir: none (the container's own root), anonymous (a volume of the engine) or " +
				"tmpfs",
			Check: env.OneOf("none", "anonymous", "tmpfs"), Try: []string{"none", "anonymous"}, Moves: env.MovesFiles},
	}, limitSettings()...)
}

// checkSpec returns an error for a wrong spec. The registry has already checked the settings of a plan one by one, but
// they become arguments of a privileged program, so they are checked again.
func checkSpec(s env.Spec) error {
	for _, d := range settings() {
		if v, given := s.Settings[d.Name]; given && d.Check != nil {
			if err := d.Check(v); err != nil {
				return fmt.Errorf("setting %s: %w", d.Name, err)
			}
		}
	}
	for _, v := range []string{s.Arg, s.Get("container", "")} {
		if strings.HasPrefix(v, "-") {
			return fmt.Errorf("%q would be taken for an option", v)
		}
	}
	if s.Arg != "" && s.Get(stack.SettingName, "") != "" {
		return fmt.Errorf("image %s and stack= exclude each other; leave out one of them", s.Arg)
	}
	if s.Get("container", "") == "" {
		return nil
	}
	if s.Arg != "" {
		return fmt.Errorf("image %s and container=%s exclude each other; leave out one of them", s.Arg,
			s.Settings["container"])
	}
	for name := range s.Settings {
		if !slices.Contains([]string{"container", "host", "user", "dir"}, name) {
			return fmt.Errorf("setting %s does not apply to a running container; only host, user and dir do", name)
		}
	}
	return nil
}

// createOptions converts a spec to the options of `create`.
func createOptions(s env.Spec) ([]string, error) {
	var opts []string
	if text := s.Get(stack.SettingName, ""); text != "" {
		wish, err := stack.Parse(text)
		if err != nil {
			return nil, err
		}
		opts = append(opts, "--env", wish.RunVariable())
	}
	for _, o := range []struct{ setting, option string }{
		{"platform", "--platform"}, {"cpus", "--cpus"}, {"cpuset", "--cpuset-cpus"}, {"network", "--network"},
		{"user", "--user"},
	} {
		if v := s.Get(o.setting, ""); v != "" {
			opts = append(opts, o.option, v)
		}
	}
	if v := s.Get("runtime", ""); v != "" && s.Driver != "podman" {
		opts = append(opts, "--runtime", v) // podman takes it before the subcommand
	}
	if v := s.Get("memory", ""); v != "" {
		n, err := unit.ParseSize(v)
		if err != nil {
			return nil, err
		}
		opts = append(opts, "--memory", strconv.FormatInt(n, 10))
	}
	limited, err := limitOptions(s)
	if err != nil {
		return nil, err
	}
	opts = append(opts, limited...)
	for _, o := range []struct{ setting, option string }{{"security", "--security-opt"}, {"ulimit", "--ulimit"}} {
		if v := s.Get(o.setting, ""); v != "" {
			for _, item := range strings.Split(v, ",") {
				opts = append(opts, o.option, item)
			}
		}
	}
	if s.Get("privileged", "no") == "yes" {
		opts = append(opts, "--privileged")
	}
	switch dir := s.Get("dir", workDir); s.Get("volume", "none") {
	case "anonymous":
		opts = append(opts, "--volume", dir)
	case "tmpfs":
		// Engines mount a tmpfs noexec, but the command workload may build and run a program there.
		opts = append(opts, "--tmpfs", dir+":rw,exec,mode=1777")
	}
	return opts, nil
}

func match(pattern, want string) func(string) error {
	// Compiled on first use, and not whenever tare starts.
	re := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)$`) })
	return func(v string) error {
		if !re().MatchString(v) {
			return fmt.Errorf("%q is not %s", v, want)
		}
		return nil
	}
}

func checkList(pattern, want string) func(string) error {
	one := match(pattern, want)
	return func(v string) error {
		for _, item := range strings.Split(v, ",") {
			if err := one(item); err != nil {
				return err
			}
		}
		return nil
	}
}

func checkCPUs(v string) error {
	// Not ParseFloat: the engines accept no exponents, signs or hexadecimal digits.
	if err := match(`[0-9]{1,5}(\.[0-9]{1,9})?`, "a number of CPUs such as 2 or 1.5")(v); err != nil {
		return err
	}
	if n, err := strconv.ParseFloat(v, 64); err != nil || n < 0.01 {
		return fmt.Errorf("%q is less than the 0.01 CPUs the engines accept", v)
	}
	return nil
}

// minMemory is the smallest memory limit that Docker accepts, in bytes.
const minMemory = 6 << 20

func checkMemory(v string) error {
	n, err := unit.ParseSize(v)
	if err == nil && n < minMemory {
		err = fmt.Errorf("%q is less than the 6 MiB the engines accept", v)
	}
	return err
}

func checkDir(v string) error {
	switch {
	case !path.IsAbs(v) || path.Clean(v) != v:
		return fmt.Errorf("%q is not an absolute path in its shortest form", v)
	case strings.ContainsAny(v, ":,\x00\n"):
		return errors.New("a path with a colon, comma or line break cannot be given to the engines")
	}
	return nil
}
