package namespace

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/lab/leftover"
	"tare/internal/measure/agent/nsinit"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
)

// insideReport is what the agent reports from inside a container.
type insideReport struct {
	Outside, Inside record.Facts
	Error           string
}

// look opens a container and asks the agent for its facts; meanwhile inner inspects the agent's process from outside.
func look(ctx context.Context, o env.Options, inner func(pid int) error) (s insideReport, err error) {
	e, err := Driver{}.Open(ctx, o)
	if err != nil {
		return s, err
	}
	defer e.Close()
	stream, err := e.Agent(ctx)
	if err != nil {
		return s, err
	}
	conn, err := deploy.Connect(ctx, stream, o.RunID)
	if err != nil {
		return s, err
	}
	defer conn.Close()
	s.Outside = e.Facts()
	if s.Inside, err = conn.Facts(ctx); err != nil {
		return s, err
	}
	kind, ok := all.Lookup("fs.smallfiles")
	if !ok {
		return s, fmt.Errorf("there is no fs.smallfiles")
	}
	params, err := kind.Resolve(map[string]string{"files": "3", "dirs": "1"})
	if err != nil {
		return s, err
	}
	if _, err := conn.Run(ctx, wire.Run{Job: wire.Job{Kind: kind.Name, Params: params, Cell: "c"},
		Work: 3}); err != nil {
		return s, err
	}
	if inner == nil {
		return s, nil
	}
	return s, inner(stream.(interface{ Pid() int }).Pid())
}

func options(t *testing.T, spec env.Spec) env.Options {
	spec.Name = "box_1"
	return env.Options{Spec: spec, RunID: "isolation", Dir: t.TempDir(), Agents: agenttest.Store(t)}
}

func TestIsolation(t *testing.T) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]env.Spec{"default": spec(), "host net": spec("net", "host"),
		"user namespace": spec("user", "own"), "both": spec("user", "own", "net", "host")} {
		t.Run(name, func(t *testing.T) {
			o := options(t, spec)
			s, err := look(t.Context(), o, func(pid int) error {
				for _, k := range []string{"mnt", "pid", "ipc", "uts", "net", "user"} {
					ours, err := os.Readlink("/proc/self/ns/" + k)
					if err != nil {
						return err
					}
					theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, k))
					if err != nil {
						return err
					}
					want := k != "net" && k != "user" || k == "net" && spec.Settings["net"] != "host" ||
						k == "user" && spec.Settings["user"] == "own"
					if (ours != theirs) != want {
						t.Errorf("namespace %s is its own: %v, want %v", k, ours != theirs, want)
					}
				}
				info, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
				if err != nil {
					return err
				}
				if strings.Contains(string(info), "tare-outside") {
					t.Errorf("the outside is still mounted inside:\n%s", info)
				}
				for _, want := range []string{" / / ", " /proc ", " /sys", " /dev ", " /dev/null ", " /dev/pts ",
					" /dev/shm ", " /run "} {
					if !strings.Contains(string(info), want) {
						t.Errorf("%q is not among the mounts inside:\n%s", want, info)
					}
				}
				if spec.Settings["net"] == "host" {
					return nil
				}
				dev, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", pid))
				if err != nil {
					return err
				}
				if lines := strings.Split(strings.TrimSpace(string(dev)), "\n"); len(lines) != 3 ||
					!strings.Contains(lines[2], "lo:") {
					t.Errorf("devices inside:\n%s", dev)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if s.Inside.Hostname != "box-1" {
				t.Errorf("the name inside is %q", s.Inside.Hostname)
			}
			if !strings.HasPrefix(s.Inside.WorkFS, "overlay") {
				t.Errorf("file workloads work on %q", s.Inside.WorkFS)
			}
			t.Logf("root: %s", s.Outside.Extra["namespace.root"])
			if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
				t.Errorf("left in the private directory: %v %v", left, err)
			}
		})
	}
	after, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	// Other processes mount and unmount, too; only mounts with the name of this test's folders are ours.
	for line := range strings.Lines(string(after)) {
		if strings.Contains(line, t.Name()) && !strings.Contains(string(mounts), line) {
			t.Errorf("a mount is left outside: %s", line)
		}
	}
}

// An empty directory is enough.
func TestEmptyRootAndCPUs(t *testing.T) {
	root := t.TempDir()
	s, err := look(t.Context(), options(t, spec("root", root, "cpus", "0")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Inside.Threads != 1 {
		t.Errorf("the agent may use %d threads", s.Inside.Threads)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("written into the root: %v %v", left, err)
	}
}

// TestHostileRoot has a root whose symbolic links point outside, where the container's own mounts would go.
func TestHostileRoot(t *testing.T) {
	root, bait := t.TempDir(), t.TempDir()
	for _, name := range []string{"dev", "run", "proc"} {
		if err := os.Symlink(bait, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := look(t.Context(), options(t, spec("root", root)), nil)
	t.Logf("%v %v", s.Inside.WorkFS, err)
	if left, err := os.ReadDir(bait); err != nil || len(left) > 0 {
		t.Errorf("the links led outside: %v %v", left, err)
	}
	if info, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(info), bait) {
		t.Errorf("mounted outside: %v", err)
	}
}

// TestUnprivileged runs as a user without privileges, if the system allows that user to make namespaces.
func TestUnprivileged(t *testing.T) {
	const dirVar, agentVar = "TARE_NAMESPACE_TEST_DIR", "TARE_NAMESPACE_TEST_AGENT"
	if dir := os.Getenv(dirVar); dir != "" {
		sp := spec()
		sp.Name = "box"
		s, err := look(t.Context(), env.Options{Spec: sp, RunID: "unprivileged", Dir: dir,
			Agents: fixedAgents(os.Getenv(agentVar))}, nil)
		if err != nil {
			s.Error = err.Error()
		}
		json.NewEncoder(os.NewFile(3, "answer")).Encode(s)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("the other tests of this package are this test when they do not run as root")
	}
	// Copy everything that the other user needs to a place where it may read.
	dir, err := os.MkdirTemp("/var/tmp", "tare-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := leftover.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	agent, err := agenttest.Store(t).Path("linux", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"agent": agent, "test": "/proc/self/exe"} {
		copyFile(t, filepath.Join(dir, name), from)
	}
	private := filepath.Join(dir, "private")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	if err := os.Chown(private, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^TestUnprivileged$")
	cmd.Dir = "/"
	cmd.Env = []string{dirVar + "=" + private, agentVar + "=" + filepath.Join(dir, "agent"), "PATH=/usr/bin:/bin",
		"TMPDIR=" + private}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody,
		NoSetGroups: false}}
	cmd.ExtraFiles = []*os.File{w}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	w.Close()
	b, _ := io.ReadAll(r)
	var s insideReport
	if jerr := json.Unmarshal(b, &s); err != nil || jerr != nil {
		t.Fatalf("%v, %v: %s%s", err, jerr, b, said.String())
	}
	if s.Error != "" {
		if restricted() {
			if !strings.Contains(s.Error, "run tare as root") {
				t.Errorf("a system that forbids it must be explained: %s", s.Error)
			}
			return
		}
		t.Fatal(s.Error)
	}
	if !strings.HasPrefix(s.Inside.WorkFS, "overlay") || !strings.Contains(s.Outside.Extra["namespace.flags"], "user") {
		t.Errorf("%+v", s)
	}
	if left, err := os.ReadDir(private); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// restricted tells whether this system forbids user namespaces to ordinary users.
func restricted() bool {
	for file, bad := range map[string]string{
		"/proc/sys/kernel/unprivileged_userns_clone": "0", "/proc/sys/user/max_user_namespaces": "0",
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
	} {
		if b, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(b)) == bad {
			return true
		}
	}
	return false
}

type fixedAgents string

func (f fixedAgents) Path(string, string) (string, error) { return string(f), nil }

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// Outside a container this role must not change anything.
func TestInitRefusesToRunOutside(t *testing.T) {
	agent := agenttest.Build(t, "linux", runtime.GOARCH)
	args, err := (&nsinit.Config{Dir: nsinit.Path(t.TempDir()), Root: "/"}).Args()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(agent, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "must be the first process of a PID namespace") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.Command(agent, "nsinit", "{").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "for tare's own use") {
		t.Errorf("%v: %s", err, out)
	}
}

// The first process reaps orphans and passes on the agent's end.
func TestOrphansAreCollected(t *testing.T) {
	_, err := look(t.Context(), options(t, spec()), func(pid int) error {
		// An orphan in the container: a process of ours enters it and leaves a child behind.
		run := func(line string) ([]byte, error) {
			return exec.Command("nsenter", "--target", strconv.Itoa(pid), "--pid", "--mount", "sh", "-c", line).Output()
		}
		if _, err := run("(sleep 0.1 & exec sleep 0.05) & sleep 0.4"); err != nil {
			return err
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			// A process that ended after it was listed cannot be read, and is not left over.
			out, err := run("cat /proc/[0-9]*/stat 2>/dev/null || :")
			if err != nil || len(out) == 0 {
				return fmt.Errorf("list what runs inside: %q, %v", out, err)
			}
			if !strings.Contains(string(out), ") Z ") {
				return nil
			}
			if time.Now().After(end) {
				return fmt.Errorf("zombies inside:\n%s", out)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A temporary folder whose name is not UTF-8 works like any other, for the layers and for bind mounts.
func TestPathsThatAreNotUTF8(t *testing.T) {
	o := options(t, spec())
	o.Dir = filepath.Join(t.TempDir(), "caf\xe9")
	if err := os.Mkdir(o.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o.Mounts = []env.Spec{{Name: "b", Driver: "bind"}}
	s, err := look(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Inside.Hostname != "box-1" {
		t.Errorf("inside: %+v", s.Inside)
	}
}

// The container reaches the host's loopback only if it uses the host's network.
func TestWayToTheHostsLoopback(t *testing.T) {
	for net, want := range map[string]string{"host": "", "none": "use net=host"} {
		o := options(t, spec("net", net))
		e, err := Driver{}.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if _, err := env.Loopback("box", e); want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("net=%s: %v, want %s", net, err, want)
			}
			continue
		}
		s, err := deploy.Attach(t.Context(), e, o.RunID)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		envtest.Network(t, e, s, o.Agents)
	}
}
