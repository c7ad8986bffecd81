//go:build amd64

package virtualbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/lab/hostcache"
	"tare/internal/lab/microvm"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// need ends a test where no machine of VirtualBox can be made. Its product is in a root directory that
// scripts/deps.sh has made, as its modules for shared folders are.
func need(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("an interpreted machine is booted")
	}
	why := ""
	if os.Getenv(rootVar) == "" {
		why = rootVar + " names no root directory with VirtualBox; scripts/deps.sh virtualbox makes one"
	} else if os.Getenv(modulesVar) == "" {
		why = modulesVar + " names no folder with vboxsf; scripts/deps.sh vboxsf makes one"
	} else if os.Getuid() != 0 {
		why = "a root directory is entered as root only"
	} else if s := probe(t.Context()); !s.OK {
		why = s.Detail + "; " + s.Remedy
	} else if _, err := microvm.Find("", "amd64", microvm.Cloud); err != nil {
		why = err.Error()
	}
	if why != "" && os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(why)
	} else if why != "" {
		t.Skip(why)
	}
}

const modulesVar = "TARE_VBOXSF_MODULES"

// small is the smallest machine that does the work; interpreted, so that it is the same on every host.
func small(pairs ...string) env.Spec {
	return spec(append([]string{"engine", interpreter, "memory", "160MiB", "disk", "64MiB", "kernel", microvm.Cloud},
		pairs...)...)
}

// withCard is a machine with everything that needs no other boot, so that tests may share its saved state.
func withCard() env.Spec {
	return small("modules", os.Getenv(modulesVar), "nic", "virtio", "nic_mode", nat)
}

func mount(kind, as string, pairs ...string) env.Spec {
	s := spec(pairs...)
	s.Name, s.Driver = as, kind
	return s
}

func TestContract(t *testing.T) {
	need(t)
	impossible := []env.Spec{
		small("kernel", "/etc/hostname"),
		small("controller", "ahci"), // Debian's cloud kernel has no driver for it
		small("boot", "10s", "saved", "off", "disk", "none"),
	}
	if !driverLoaded() {
		impossible = append(impossible, spec("engine", "hwvirt"))
	}
	envtest.Run(t, driver{}, envtest.Options{
		Spec: withCard(), OS: "linux", Arch: "amd64", Patience: 15 * time.Minute,
		Work:        2000,
		CancelAfter: []time.Duration{0, 100 * time.Millisecond, 2 * time.Second},
		// Without disks it is the same machine as without mounts, and goes on from the same saved state.
		Mounts: []env.Spec{mount(kindVboxsf, "share"), mount(kindVboxsf, "plain", "options", "noatime")},
		Broken: []env.Spec{mount(kindVboxsf, "bad", "options", "nonsense=1")},
		Kill: func(t testing.TB, e env.Env, _ wire.Hello) {
			pids := e.(*vm).Processes()
			if err := syscall.Kill(pids[len(pids)-1], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		Leaks: func(t testing.TB, runID string) []string {
			found, _ := filepath.Glob("/tmp/.vbox-" + ipcPrefix + "*" + runID + "*")
			return found
		},
		Impossible: impossible,
	})
}

// onDisk makes a directory that is not in the host's memory, where nothing is ever cold.
func onDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := hostcache.Drop(t.Context(), []string{dir}); err == nil {
		return dir
	}
	dir, err := os.MkdirTemp("/var/tmp", "tare-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// checkCold checks that the files behind a machine's disk and shared folder leave the host's cache.
func checkCold(t *testing.T, v *vm) {
	t.Helper()
	shared := filepath.Join(v.mounts[0].Mount.HostDir, "file")
	if err := os.WriteFile(shared, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	resident := func(name string) int64 {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		n, err := hostcache.Resident(f)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	disk := v.disks[0].data
	if _, err := os.ReadFile(disk); err != nil {
		t.Fatal(err)
	}
	if resident(shared) == 0 || resident(disk) == 0 {
		t.Fatal("what was just read is not in the host's cache: this test has no power here")
	}
	if err := v.DropHostCaches(t.Context()); err != nil {
		t.Error(err)
	}
	if s, d := resident(shared), resident(disk); s+d > 0 {
		t.Errorf("the host's cache still has %d bytes of the folder and %d of the disk", s, d)
	}
}

// checkSSH enters a machine by ssh. The server is real, but is not in the guest, which an interpreted processor would
// take minutes to bring so far: OpenSSH starts it by itself, where a user's forwarded port would lead.
func checkSSH(t *testing.T, v *vm, o env.Options) {
	t.Helper()
	sshd, err := proc.LookPath("sshd")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // for its separation of privileges
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, key := range []string{"host", "user"} {
		if _, err := proc.Run(t.Context(), nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			file(key)); err != nil {
			t.Fatal(err)
		}
	}
	public, err := os.ReadFile(file("host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"sshd_config": fmt.Sprintf("HostKey %q\nAuthorizedKeysFile %q\nPidFile none\nStrictModes no\nUsePAM no\n"+
			"PasswordAuthentication no\nPermitRootLogin yes\n", file("host"), file("user.pub")),
		"ssh_config":  fmt.Sprintf("Host guest\n\tUser root\n\tProxyCommand %s -i -f %q\n", sshd, file("sshd_config")),
		"known_hosts": "guest " + string(public),
	} {
		if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.Settings = map[string]string{"ssh": "guest", "config": file("ssh_config"), "known_hosts": file("known_hosts"),
		"identity": file("user"), "dir": dir}
	o.RunID, o.Agents, o.Log = "existing", agenttest.Store(t), slog.New(slog.DiscardHandler)
	x, err := attach(t.Context(), v.session, o)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := deploy.Attach(t.Context(), x, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if f := x.Facts(); !f.Emulated || !strings.Contains(f.Hypervisor, "IEM") || f.Settings["ssh"] != "guest" ||
		f.Extra["ssh.user"] != "root" || f.Extra["virtualbox.version"] == "" || f.Threads != 1 {
		t.Errorf("what VirtualBox and ssh know: %+v", f)
	}
	if err := errors.Join(conn.Close(), x.Close()); err != nil {
		t.Error(err)
	}
	o.Settings["known_hosts"] = file("user.pub")
	if _, err := attach(t.Context(), v.session, o); err == nil || !strings.Contains(err.Error(), "key") {
		t.Errorf("a host whose key is not known: %v", err)
	}
}

// checkNetwork checks that work on the network reaches this machine by the card and VirtualBox's NAT.
func checkNetwork(t *testing.T, v *vm, o env.Options) {
	t.Helper()
	conn, err := deploy.Attach(t.Context(), v, o.RunID)
	if err != nil {
		t.Fatal(err)
	}
	envtest.BriefNetwork(t, v, conn, o.Agents)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// openSecond opens a machine that does not boot, but goes on from the saved state of one that did. If another test has
// not left that state, it opens two.
func openSecond(t *testing.T, o env.Options) *vm {
	t.Helper()
	for again := false; ; again = true {
		e, err := driver{}.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		f := e.Facts().Extra
		if f["virtualbox.resumed"] == "" {
			t.Errorf("its state was not saved: %v", f)
		}
		if f["boot_ms"] == "" && f["resume_ms"] != "" {
			t.Logf("it went on in %s ms", f["resume_ms"])
			return e.(*vm)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if again {
			t.Fatalf("the second machine booted, too: %v", f)
		}
	}
}

// TestEngineWithoutDriver asks for the processor where VirtualBox's kernel driver is not loaded. The error says what
// works without. It comes before VirtualBox is asked anything.
func TestEngineWithoutDriver(t *testing.T) {
	t.Setenv(rootVar, "")
	standIn(t, "exit 1")
	driverDevice = filepath.Join(t.TempDir(), "vboxdrv")
	t.Cleanup(func() { driverDevice = vboxdrv })
	_, err := driver{}.Open(t.Context(), env.Options{Spec: spec("engine", "hwvirt"), RunID: "engine", Dir: t.TempDir()})
	x, ok := errors.AsType[*env.OpenError](err)
	if !ok || !strings.Contains(err.Error(), "kernel driver is not loaded") ||
		!strings.Contains(x.Remedy, "modprobe vboxdrv") ||
		!strings.Contains(x.Remedy, "engine=interpreter does without, with one CPU") {
		t.Errorf("%v, remedy %+v", err, x)
	}
	s := spec()
	if c, err := parse(&s); err != nil || c.engine != interpreter || !c.fallback {
		t.Errorf("without a word about it, the engine is %q, %v", c.engine, err)
	}
}

// TestTwoRoots has machines of VirtualBox in two root directories at the same time, as targets of one run. The second
// is a copy of the first: Debian has one release. So what is shown is that each machine says which root and release it
// is of, not what differs between releases.
func TestTwoRoots(t *testing.T) {
	need(t)
	dir := onDisk(t)
	second := filepath.Join(dir, "second")
	if _, err := proc.Run(t.Context(), nil, "cp", "-al", os.Getenv(rootVar), second); err != nil {
		os.RemoveAll(second) // it is another file system
		if _, err := proc.Run(t.Context(), nil, "cp", "-a", os.Getenv(rootVar), second); err != nil {
			t.Fatal(err)
		}
	}
	versions := map[string]string{}
	for _, root := range []string{os.Getenv(rootVar), second} {
		s := withCard() // the first one's state may be there
		s.Settings["root"], s.Settings["boot"] = root, "20m"
		if root == second {
			s.Settings["saved"] = "off" // no other test has this root
		}
		e, err := driver{}.Open(t.Context(), env.Options{Spec: s, RunID: "roots", Dir: dir,
			Agents: agenttest.Store(t), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		f := e.Facts()
		if f.Settings["root"] != root {
			t.Errorf("%s: the facts have root %q", root, f.Settings["root"])
		}
		versions[root] = f.Extra["virtualbox.version"]
		if err := checkVersion(versions[root]); err != nil {
			t.Errorf("%s: %v", root, err)
		}
	}
	if versions[second] != versions[os.Getenv(rootVar)] {
		t.Errorf("a copy has another release: %v", versions)
	}
}

// checkDirect checks that direct I/O on a new file in the shared folder is refused, and the guest lives on.
func checkDirect(t *testing.T, v *vm, conn *deploy.Conn) {
	t.Helper()
	if _, err := conn.Mount(t.Context(), v.mounts[0].Order); err != nil {
		t.Fatal(err)
	}
	kind, _ := all.Lookup("fs.seqwrite")
	params, err := kind.Resolve(map[string]string{"size": "64KiB", "direct": "yes"})
	if err != nil {
		t.Fatal(err)
	}
	job := wire.Job{Kind: kind.Name, Params: params, Cell: "c", Seed: 1, Root: v.mounts[0].Mount.Dir}
	_, err = conn.Run(t.Context(), wire.Run{Job: job, Work: 1})
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "refused" ||
		!strings.Contains(f.Message, "vboxsf") {
		t.Errorf("direct I/O in a shared folder: %v", err)
	}
}

// TestExisting meets a machine that another VirtualBox session has made, on its serial line, and leaves it running.
func TestExisting(t *testing.T) {
	need(t)
	o := env.Options{Spec: withCard(), RunID: "existing", Dir: onDisk(t),
		Mounts: []env.Spec{mount(kindVboxsf, "share")}, Agents: agenttest.Store(t), Log: slog.New(slog.DiscardHandler)}
	v := openSecond(t, o)
	defer v.Close()
	checkCold(t, v)
	checkNetwork(t, v, o)
	if err := v.wire.HangUp(); err != nil { // this end of the line is the other's now
		t.Fatal(err)
	}
	mine := env.Options{Spec: env.Spec{Name: "mine", Driver: name, Arg: v.name}}
	x, err := attach(t.Context(), v.session, mine)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := deploy.Attach(t.Context(), x, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if in, err := conn.Facts(t.Context()); err != nil || !in.Emulated || in.Hypervisor != "virtualbox" {
		t.Errorf("the guest says %q, emulated %v, %v", in.Hypervisor, in.Emulated, err)
	}
	if f := x.Facts(); !f.Emulated || !strings.Contains(f.Hypervisor, "IEM") || f.Extra["virtualbox.flushes"] == "" {
		t.Errorf("its log was not read: %+v", f)
	}
	checkDirect(t, v, conn)
	if err := errors.Join(conn.Close(), x.Close()); err != nil {
		t.Error(err)
	}
	if info, err := v.info(t.Context(), v.name); err != nil || info["VMState"] != "running" {
		t.Errorf("it was not left running: %q, %v", info["VMState"], err)
	}
	checkSSH(t, v, mine)
	if _, err := v.run(t.Context(), "controlvm", v.name, "poweroff"); err != nil {
		t.Error(err)
	}
	<-v.process.Done()
	for arg, says := range map[string]string{v.name: "not running, but powered off", "nobody": "could not find"} {
		mine.Arg = arg
		if x, err := attach(t.Context(), v.session, mine); err == nil || !strings.Contains(strings.ToLower(err.Error()),
			says) {
			t.Errorf("%s: %v, %v, want %q", arg, x, err, says)
		}
	}
}
