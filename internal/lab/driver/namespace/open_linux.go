package namespace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"tare/internal/lab/driver/limited"
	"tare/internal/lab/driver/piped"
	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/lab/stack"
	"tare/internal/measure/agent/nsinit"
	"tare/internal/record"
	"tare/internal/sys/cgroup"
	"tare/internal/sys/proc"
)

func open(ctx context.Context, o env.Options) (_ env.Env, err error) {
	e := &environment{name: o.Name, reach: reach(o.Spec), runID: o.RunID, base: o.Dir,
		release: func() error { return nil }}
	if err := ctx.Err(); err != nil {
		return nil, e.failed("open", err, "")
	}
	if e.agent, err = o.Agents.Path(runtime.GOOS, runtime.GOARCH); err != nil {
		return nil, e.failed("choose agent", err, "")
	}
	e.config = nsinit.Config{
		Root:     nsinit.Path(filepath.Clean(o.Get("root", "/"))),
		Hostname: hostname(o.Name),
		OwnNet:   o.Get("net", "none") == "none",
		OwnUser:  o.Get("user", "auto") == "own" || o.Get("user", "auto") == "auto" && os.Geteuid() != 0,
	}
	if e.config.CPUs, err = cgroup.ParseCPUs(o.Get("cpus", "")); err != nil {
		return nil, e.failed("read setting cpus", err, "use processors that exist on this machine")
	}
	if err := e.stand(&o.Spec); err != nil {
		return nil, err
	}
	if base := o.Get("dir", ""); base != "" {
		if e.base, e.release, err = leftover.New(base, o.RunID); err != nil {
			return nil, e.failed("make directory for the overlay", err,
				"choose a directory you may write to with the setting dir=PATH")
		}
	}
	if e.group, err = limited.Open(&o, limits(), e.base); err != nil {
		err = e.failed("set limits", err, limited.Remedy(err))
		e.Close()
		return nil, err
	}
	e.makeMounts(o.Mounts)
	if err := e.rehearse(ctx); err != nil {
		e.Close()
		return nil, err
	}
	argv, err := e.argv()
	if err != nil {
		e.Close()
		return nil, e.failed("set up container", err, "")
	}
	e.facts = record.Facts{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Hostname: e.config.Hostname, WorkDir: nsinit.WorkDir,
		Settings: maps.Clone(o.Settings), Command: argv,
		Extra: map[string]string{
			"namespace.flags":  strings.Join(e.namespaces(), " "),
			"namespace.layers": e.base,
			"namespace.root":   e.layout,
		},
	}
	maps.Copy(e.facts.Extra, e.stack)
	maps.Copy(e.facts.Extra, e.group.Facts())
	return e, nil
}

// stand gives the container the root of the stack that its settings name.
func (e *environment) stand(s *env.Spec) error {
	other := ""
	if _, given := s.Settings["root"]; given {
		other = "root="
	}
	st, spec, ok, err := stack.Of(s, other)
	switch {
	case err != nil:
		return e.failed("find stack", err, "")
	case !ok:
		return nil
	case e.config.OwnUser:
		return e.failed("find stack", errors.New("the servers of a stack run as several users, and a user namespace "+
			"of one's own has only one"), "run tare as root, with user=host")
	}
	e.config.Root, e.run, e.stack = nsinit.Path(st.Root()), spec.RunVariable(), st.Facts()
	return nil
}

// hostname makes a valid host name from an environment's name.
func hostname(name string) string {
	return strings.Trim(strings.NewReplacer("_", "-", ".", "-").Replace(name), "-")
}

// AgentProcess implements env.HostAgent. It is the first process of the container.
func (e *environment) AgentProcess() int { return e.agents.Pid() }

// Loopback implements env.LoopbackProvider.
func (e *environment) Loopback() (string, error) { return "127.0.0.1", e.reach }

type environment struct {
	name    string
	reach   error // why the container does not share the host's loopback; nil if it does
	runID   string
	agent   string
	config  nsinit.Config
	base    string // directory for the layers
	mounts  []env.Mounted
	folders []func() error // functions that release the host's folders of mounts with dir=
	layout  string         // how the root is made: nsinit.Overlaid or nsinit.Bound
	release func() error
	facts   record.Facts
	agents  piped.Agents
	stack   map[string]string // facts of the stack
	run     string            // its settings of the run, NAME=VALUE; "" without a stack
	group   *limited.Group    // nil without limits

	mu    sync.Mutex
	count int
	layer string // directory of the last agent
	once  sync.Once
	err   error
}

func (e *environment) failed(op string, err error, remedy string) error {
	return &env.OpenError{Env: e.name, Op: op, Err: err, Remedy: remedy}
}

// kinds are the namespaces of a container, with the names of the kernel's documentation.
var kinds = []struct {
	name string
	flag uintptr
}{
	{"mount", syscall.CLONE_NEWNS}, {"pid", syscall.CLONE_NEWPID}, {"ipc", syscall.CLONE_NEWIPC},
	{"uts", syscall.CLONE_NEWUTS},
	{"net", syscall.CLONE_NEWNET}, {"user", syscall.CLONE_NEWUSER},
}

func (e *environment) has(name string) bool {
	return name != "net" && name != "user" || name == "net" && e.config.OwnNet || name == "user" && e.config.OwnUser
}

func (e *environment) namespaces() (names []string) {
	for _, k := range kinds {
		if e.has(k.name) {
			names = append(names, k.name)
		}
	}
	return names
}

func (e *environment) argv() ([]string, error) {
	args, err := e.config.Args()
	if err != nil {
		return nil, err
	}
	return append([]string{e.agent}, args...), nil
}

// command prepares the container's first process, with layers in a new directory: overlayfs does not promise that an
// upper layer can be used again immediately after the unmount.
func (e *environment) command(ctx context.Context) (*proc.Cmd, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.clear(); err != nil {
		return nil, err
	}
	e.count++
	layer := filepath.Join(e.base, "layers-"+strconv.Itoa(e.count))
	if err := os.Mkdir(layer, 0o700); err != nil {
		return nil, err
	}
	e.layer = layer
	e.config.Dir = nsinit.Path(layer)
	argv, err := e.argv()
	if err != nil {
		return nil, err
	}
	cmd := proc.Command(ctx, argv...)
	e.group.Join(cmd)
	if e.run != "" {
		cmd.Env = append(os.Environ(), e.run)
	}
	for _, k := range kinds {
		if e.has(k.name) {
			cmd.SysProcAttr.Cloneflags |= k.flag
		}
	}
	if e.config.OwnUser {
		// Root inside is this user outside. More users would need the helpers newuidmap and newgidmap.
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return cmd, nil
}

// clear removes the layers of the previous agent.
func (e *environment) clear() error {
	if e.layer == "" {
		return nil
	}
	err := leftover.Remove(e.layer)
	if err == nil {
		e.layer = ""
	}
	return err
}

// rehearse sets up a container and takes it down, and explains a failure.
func (e *environment) rehearse(ctx context.Context) error {
	e.config.Check = true
	defer func() { e.config.Check = false }()
	cmd, err := e.command(ctx)
	if err != nil {
		return e.failed("set up container", err, "choose a directory you may write to with the setting dir=PATH")
	}
	out, err := proc.RunCmd(cmd, nil)
	switch {
	case err == nil:
		e.layout = strings.TrimSpace(string(out))
		return nil
	case ctx.Err() != nil:
		return e.failed("set up container", ctx.Err(), "")
	}
	x := &env.OpenError{Env: e.name, Op: "set up container", Err: err}
	if said, ok := errors.AsType[*proc.ExitError](err); ok {
		x.Evidence = []byte(said.Stderr)
		line := strings.TrimPrefix(strings.TrimSpace(said.Stderr), "tare: set up container: ")
		if said.Code == nsinit.ExitSetup && line != "" {
			x.Err = errors.New(line)
		}
	}
	if x.Remedy = explain(x.Err); errors.Is(x.Err, syscall.EPERM) && os.Geteuid() != 0 && !e.config.OwnUser {
		x.Remedy = "only root can make a container in the host's user namespace; use user=own, or run tare as root"
	}
	return x
}

// explain returns remedies for the usual reasons why a kernel refuses a container.
func explain(err error) string {
	switch msg := err.Error(); {
	case errors.Is(err, syscall.EPERM) && os.Geteuid() != 0, errors.Is(err, syscall.EACCES) && os.Geteuid() != 0:
		return "this system does not allow you user namespaces: see the sysctls kernel.unprivileged_userns_clone, " +
			"user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns, or run tare as root"
	case errors.Is(err, syscall.EPERM):
		return "namespaces need CAP_SYS_ADMIN, which root lacks in a container: run tare outside the " +
			"container"
	case errors.Is(err, syscall.ENOSPC):
		return "the limit of namespaces is reached: increase the sysctl user.max_user_namespaces"
	case strings.Contains(msg, "mount overlayfs") && strings.Contains(msg, "not permitted"):
		return "this kernel does not allow overlayfs in user namespaces (Linux 5.11 and later do): run tare as root"
	case strings.Contains(msg, "mount overlayfs") && strings.Contains(msg, "no such device"):
		return "this kernel has no overlayfs: modprobe overlay"
	case strings.Contains(msg, "mount overlayfs"):
		return "the layers must be on a file system that supports an overlay's upper layer, such as ext4, xfs, btrfs " +
			"or tmpfs, " +
			"but not an overlay: choose one with the setting dir=PATH"
	case strings.Contains(msg, "use processors"):
		return "use processors that exist and are allowed here"
	case strings.Contains(msg, "bind ") && strings.Contains(msg, "no such file"):
		return "use an existing directory with the setting root=PATH"
	}
	return "see the kernel's error; tare doctor shows what this machine supports"
}

func (e *environment) Agent(ctx context.Context) (env.Stream, error) {
	if err := e.agents.Free(); err != nil {
		return nil, err
	}
	cmd, err := e.command(context.WithoutCancel(ctx))
	if err != nil {
		return nil, fmt.Errorf("start container: %w", err)
	}
	return e.agents.Start(ctx, cmd)
}

func (e *environment) Facts() record.Facts { return e.facts }

func (e *environment) Diagnose() []byte { return e.agents.Diagnose() }

func (e *environment) Close() error {
	e.once.Do(func() {
		e.agents.Close()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.err = errors.Join(e.clear(), e.removeMounts(), e.group.Close(), e.release())
	})
	return e.err
}

// probe tells from the system's limits whether a container can be made. It does not make one.
func probe(context.Context) env.Status {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	s := env.Status{OK: true, Detail: "Linux " + strings.TrimSpace(string(kernel))}
	if fs, err := os.ReadFile("/proc/filesystems"); err == nil && !bytes.Contains(fs, []byte("\toverlay\n")) {
		s.Detail += ", overlayfs not loaded yet"
		if _, err := os.Stat("/sys/module/overlay"); err != nil && os.Geteuid() == 0 {
			s.Remedy = "modprobe overlay"
		}
	}
	if os.Geteuid() == 0 {
		return s
	}
	s.Detail += ", as " + strconv.Itoa(os.Geteuid()) + " in a user namespace"
	for file, bad := range map[string]string{
		"/proc/sys/kernel/unprivileged_userns_clone":             "0",
		"/proc/sys/user/max_user_namespaces":                     "0",
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
	} {
		if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == bad {
			name := strings.ReplaceAll(strings.TrimPrefix(file, "/proc/sys/"), "/", ".")
			return env.Status{Detail: name + " = " + bad + " forbids user namespaces",
				Remedy: "run tare as root, or change " + name}
		}
	}
	return s
}
