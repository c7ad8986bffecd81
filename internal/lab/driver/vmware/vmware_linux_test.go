package vmware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/lab/microvm"
	"tare/internal/measure/wire"
	"tare/internal/sys/proc"
)

// patience bounds every wait. It is long enough for a busy machine.
const patience = 3 * time.Minute

func spec(vmrun string, settings ...string) env.Spec {
	s := env.Spec{Name: "vm", Driver: name, Settings: map[string]string{"vmrun": vmrun, "product": "ws"}}
	for i := 0; i < len(settings); i += 2 {
		s.Settings[settings[i]] = settings[i+1]
	}
	return s
}

// need requires programs, and a kernel for guests, which is fetched into the user's cache if it is missing.
func need(t *testing.T, flavour string) {
	t.Helper()
	var lacking error
	for _, p := range []string{"qemu-system-x86_64", "qemu-img", "mke2fs", "xorriso", fuseProgram} {
		if _, err := proc.LookPath(p); err != nil {
			lacking = err
		}
	}
	if _, err := microvm.Find("", "amd64", flavour); err != nil && lacking == nil {
		_, lacking = microvm.Fetch(t.Context(), "", "amd64", flavour)
	}
	if lacking != nil && os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(lacking)
	}
	if lacking != nil {
		t.Skip(lacking)
	}
}

// TestContract runs the suite of all drivers on the stand-in.
func TestContract(t *testing.T) {
	t.Parallel() // the agents are in the machines, so the suite finds its own
	need(t, microvm.Cloud)
	vmrun := standInVmrun(t)
	hgfs := env.Spec{Name: "hgfs", Driver: kindHGFS} // QEMU has no shared folders of VMware's
	envtest.Run(t, driver{}, envtest.Options{
		Spec: spec(vmrun, "memory", "256MiB", "disk", "64MiB", "controller", "nvme", "boot", "3m"), OS: "linux",
		Arch: "amd64", CancelAfter: []time.Duration{0, 50 * time.Millisecond, time.Second},
		Broken: []env.Spec{hgfs},
		Kill: func(t testing.TB, e env.Env, _ wire.Hello) {
			if err := syscall.Kill(pidOf(e.(*vm).vmx), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		},
		Impossible: []env.Spec{
			spec("/nonexistent/vmrun"), spec("/bin/true"),
			spec(vmrun, "disk", none, "controller", "sata"),
			spec(vmrun, "net", "nat"),
			spec(vmrun, "disk", none, "memory", "128MiB", "append", "panic=1 root=/nowhere rdinit=/nothing", "boot",
				"15s"),
		},
	})
}

func options(t *testing.T, s env.Spec) env.Options {
	return env.Options{Spec: s, RunID: fmt.Sprintf("v%d-%s", os.Getpid(), strings.ToLower(t.Name())), Dir: t.TempDir(),
		Agents: agenttest.Store(t), Log: slog.New(slog.DiscardHandler)}
}

// TestHardware boots VMware's own virtual hardware, PVSCSI and VMXNET3, from a VMDK.
func TestHardware(t *testing.T) {
	t.Parallel()
	need(t, microvm.Generic)
	o := options(t, spec(standInVmrun(t), "memory", "512MiB", "disk", "64MiB", "disk_type", "static", "controller",
		"pvscsi",
		"nic", "vmxnet3", "medium", "vmdk", "mitigations", "off", "boot", "3m"))
	o.Mounts = []env.Spec{{Name: "hgfs", Driver: kindHGFS}}
	e, conn := envtest.Open(t, driver{}, o)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f, err := conn.Facts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(f.WorkFS, "ext4") || f.Extra["work.disk.name"] != "sda" &&
		f.Extra["work.disk.name"] != "sdb" {
		t.Errorf("work is done on %q, disk %q", f.WorkFS, f.Extra["work.disk.name"])
	}
	// The program runs in the guest with all its libraries. It can mount only in VMware: it asks the hypervisor by an
	// instruction that only VMware allows to programs.
	m := e.(env.Mounter).Mounts()[0]
	if m.Err != nil {
		t.Fatal(m.Err)
	}
	order := *m.Order
	order.Command, order.Once = []string{m.Order.Command[0], "--version"}, true
	if _, err := conn.Mount(ctx, &order); err != nil {
		t.Errorf("%s in the guest: %v", fuseProgram, err)
	}
	out := e.Facts()
	if out.Extra["vmware.product"] != "VMware Workstation" || out.Extra["vmrun.version"] == "" ||
		out.Settings["mitigations"] != "off" || out.Hypervisor != "vmware ws" {
		t.Errorf("facts: %+v", out)
	}
	vmx := e.(*vm).vmx
	if got := locked(vmx); !slices.Equal(got, []string{"tare.vmx.lck"}) {
		t.Errorf("locked are %v", got)
	}
	checkVMDK(t, filepath.Join(filepath.Dir(vmx), diskFile), "monolithicFlat")
	conn.Close()
	enter(t, o, vmx)
	// A second start meets the lock.
	_, err = e.(*vm).run(t.Context(), "start", vmx, "nogui")
	if err == nil || !strings.Contains(remedy(err), ".lck") {
		t.Errorf("start of a locked machine: %v; %s", err, remedy(err))
	}
}

// enter enters a machine that runs as a user's own, by the serial port in its .vmx, and leaves it as it was.
func enter(t *testing.T, o env.Options, vmx string) {
	t.Helper()
	o.Spec, o.Mounts = spec(o.Get("vmrun", ""), "boot", "3m"), nil
	// vmrun lists it by another name of the same file.
	o.Arg = filepath.Join(t.TempDir(), "theirs.vmx")
	if err := os.Symlink(vmx, o.Arg); err != nil {
		t.Fatal(err)
	}
	if s := has(t.Context(), o.Spec); !s.OK {
		t.Errorf("%+v", s)
	}
	for range 2 { // the second one finds the agent that the first one left
		e, err := driver{}.Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := deploy.Attach(t.Context(), e, o.RunID)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		f := e.Facts()
		if f.Extra["vmx.scsi0.virtualDev"] != "pvscsi" || f.Extra["line.kind"] != "Unix socket" || f.Threads != 1 ||
			f.MemoryBytes != 512<<20 || f.Extra["vmware.product"] == "" || f.Settings["boot"] != "3m" ||
			f.Settings["disk"] != "" || f.Hypervisor != "vmware ws" {
			t.Errorf("facts: %+v", f)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := (vmrun{o.Get("vmrun", ""), "ws"}).running(t.Context(), vmx); err != nil {
		t.Error(err)
	}
	o.Mounts = []env.Spec{{Name: "hgfs", Driver: kindHGFS}}
	refused(t, o, "gets no disks and folders", "without a path")
}

// refused opens a machine that cannot be had.
func refused(t *testing.T, o env.Options, says, fix string) {
	t.Helper()
	_, err := driver{}.Open(t.Context(), o)
	x, ok := errors.AsType[*env.OpenError](err)
	if !ok || !strings.Contains(x.Err.Error(), says) || !strings.Contains(x.Remedy, fix) {
		t.Errorf("%v", err)
	}
	t.Log(err)
}

// TestNamedMachine asks for machines that cannot be entered.
func TestNamedMachine(t *testing.T) {
	vmrun := standInVmrun(t)
	dir := t.TempDir()
	sleeper, err := proc.Start(proc.Command(t.Context(), "sleep", "600"))
	if err != nil {
		t.Fatal(err)
	}
	defer sleeper.Close()
	plain, off := filepath.Join(dir, "plain.vmx"), filepath.Join(t.TempDir(), "off.vmx")
	for path, text := range map[string]string{plain: "numvcpus = \"1\"\n", off: "",
		filepath.Join(dir, "standin.pid"):             fmt.Sprint(sleeper.Pid()),
		filepath.Join(filepath.Dir(vmrun), "started"): plain + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ arg, setting, value, says, fix string }{
		{off, "", "", "does not run; start it first", "vmrun list"},
		{dir, "", "", "is not a .vmx file", "vmrun list"},
		{dir + "/none.vmx", "", "", "no such file", "vmrun list"},
		{plain, "", "", "no first serial port", "serial0.fileType"},
		{plain, "memory", "1GiB", "memory= is for a machine that tare makes", "vmrun"},
		{plain, "vmrun", "/nonexistent", "is not a program", "install VMware"},
	} {
		s := spec(vmrun)
		if s.Arg = c.arg; c.setting != "" {
			s.Settings[c.setting] = c.value
		}
		refused(t, options(t, s), c.says, c.fix)
		runs := c.arg == plain && c.setting != "vmrun"
		if got := has(t.Context(), s); got.OK != runs || !runs && got.Remedy == "" {
			t.Errorf("%s: %+v", c.arg, got)
		}
	}
}

// checkVMDK asks qemu-img what a disk is.
func checkVMDK(t *testing.T, path, kind string) {
	t.Helper()
	// Another process has it open.
	out, err := proc.Run(t.Context(), nil, "qemu-img", "info", "--force-share", "--output=json", path)
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Format   string
		Size     int64 `json:"virtual-size"`
		Specific struct {
			Data struct {
				Kind string `json:"create-type"`
			}
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		t.Fatal(err)
	}
	if info.Format != "vmdk" || info.Specific.Data.Kind != kind || info.Size != 64<<20 {
		t.Errorf("%s is %+v", path, info)
	}
	b, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(b), `ddb.adapterType = "lsilogic"`) {
		t.Errorf("%s has no adapter type: %v", path, err)
	}
}

// TestKeysAreDocumented generates files with all settings.
func TestKeysAreDocumented(t *testing.T) {
	table, err := os.ReadFile("testdata/vmx-keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for line := range strings.Lines(string(table)) {
		if words := strings.Fields(line); len(words) >= 3 && words[0] != "#" {
			documented[words[0]] = words[1]
		}
	}
	used := map[string]bool{}
	for _, s := range [][]string{
		{}, {"controller", "lsilogic", "nic", "e1000", "net", "bridged"}, {"controller", "nvme", "nic", "e1000e"},
		{"controller", "sata", "nic", "vmxnet3", "net", "hostonly", "firmware", "efi", "medium", "vmdk"},
		{"disk", none, "mitigations", "off", "cpus", "4", "memory", "2GiB"},
	} {
		sp := spec("auto", s...)
		c, err := parse(&sp)
		if err != nil {
			t.Fatal(err)
		}
		f := files{name: `a "quoted" | name`, medium: "medium." + c.medium, pipe: "/tmp/wire",
			folders: []sharedFolder{{"tare0", `/a|b"c`}}}
		if c.disk > 0 {
			f.disk = diskFile
		}
		keys, err := parseVMX(c.vmxText(f))
		if err != nil {
			t.Fatal(err)
		}
		if keys["displayName"] != f.name || keys["sharedFolder0.hostPath"] != f.folders[0].path {
			t.Errorf("values are not read back: %q, %q", keys["displayName"], keys["sharedFolder0.hostPath"])
		}
		for k, v := range keys {
			found := false
			for pattern, value := range documented {
				if regexp.MustCompile("^" + strings.ReplaceAll(pattern, ".", `\.`) + "$").MatchString(k) {
					found, used[pattern] = true, true
					if !regexp.MustCompile("^(?s:" + value + ")$").MatchString(v) {
						t.Errorf("%s = %q is not %s", k, v, value)
					}
				}
			}
			if !found {
				t.Errorf("key %s is not documented", k)
			}
		}
	}
	for pattern := range documented {
		if !used[pattern] {
			t.Errorf("no file has the key %s", pattern)
		}
	}
}

// TestClean finds machines in the folders of dead runs, and only those.
func TestClean(t *testing.T) {
	vmrun := standInVmrun(t)
	dir := filepath.Dir(vmrun)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	child, err := proc.Start(proc.Command(t.Context(), "sleep", "0"))
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	child.Close()
	base := t.TempDir()
	var started []string
	for folder, owner := range map[string]int{"tare-run-dead-1": child.Pid(), "tare-run-alive-1": os.Getpid(),
		"users": 0} {
		home := filepath.Join(base, folder, "vmware-1")
		if err := os.MkdirAll(home, 0o700); err != nil {
			t.Fatal(err)
		}
		sleeper, err := proc.Start(proc.Command(t.Context(), "sleep", "600"))
		if err != nil {
			t.Fatal(err)
		}
		defer sleeper.Close()
		for name, text := range map[string]string{"../owner": fmt.Sprintln(owner),
			"standin.pid": fmt.Sprint(sleeper.Pid()),
			"tare.vmx":    ""} {
			if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		started = append(started, filepath.Join(home, "tare.vmx"))
	}
	if err := os.WriteFile(filepath.Join(dir, "started"), []byte(strings.Join(started, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"VMware machine " + filepath.Join(base, "tare-run-dead-1", "vmware-1", "tare.vmx")}
	for _, dry := range []bool{true, false} {
		if lines, err := clean(t.Context(), dry); err != nil || !slices.Equal(lines, want) {
			t.Errorf("clean, dry %v: %q, %v", dry, lines, err)
		}
	}
	if left := running(dir); len(left) != 2 {
		t.Errorf("running are %v", left)
	}
}
