package libvirt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/lab/libvirttest"
	"tare/internal/lab/microvm"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/sys/proc"
)

// options are those of one opening.
func options(t *testing.T, s env.Spec) env.Options {
	return env.Options{Spec: s, RunID: fmt.Sprintf("l%d-%03d", os.Getpid(), openings.Add(1)), Dir: t.TempDir(),
		Agents: agenttest.Store(t), Log: slog.New(slog.DiscardHandler)}
}

// virshTest runs virsh at a daemon.
func virshTest(t *testing.T, d *libvirttest.Daemon, stdin string, args ...string) string {
	t.Helper()
	out, err := virsh{uri: d.URI}.feed(t.Context(), strings.NewReader(stdin), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// idle is a domain that has nothing to boot from. more is XML in its elements.
func idle(name, more string) string {
	return `<domain type="qemu"><name>` + name + `</name>` + more + `<memory unit="MiB">32</memory>` +
		`<os><type>hvm</type></os></domain>`
}

func trial(t *testing.T, conn *deploy.Conn) error {
	t.Helper()
	kind, _ := all.Lookup("null")
	params, err := kind.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = conn.Run(ctx, wire.Run{Job: wire.Job{Kind: "null", Params: params, Cell: "c", Seed: 1}, Work: 1000})
	return err
}

// TestLibvirtdGone kills libvirtd while a micro-VM is being measured: work goes on, and nothing stays behind.
func TestLibvirtdGone(t *testing.T) {
	t.Parallel()
	d := libvirttest.New(t)
	kernel(t, microvm.Cloud)
	o := options(t, spec(d, append(slices.Clone(small), "machine", "pc", "cache", "writethrough", "bus", "scsi")...))
	e, err := testDriver(t, d).Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	f := e.Facts()
	for k, want := range map[string]string{"domain.type": "qemu", "domain.disk.0": "disk sda bus=scsi format=raw " +
		"source=file cache=writethrough io=threads discard=ignore", "domain.cpus": "1", "domain.memory": "268435456",
		"domain.scsi": "virtio-scsi", "disk.cache": "direct=off,no-flush=off,guest-write-cache=off"} {
		if f.Extra[k] != want {
			t.Errorf("fact %s is %q, want %q", k, f.Extra[k], want)
		}
	}
	if !strings.HasPrefix(f.Extra["domain.machine"], "pc-") || !f.Emulated || f.Settings["type"] != "qemu" ||
		f.Settings["io"] != "threads" || f.Settings["accel"] != "" {
		t.Errorf("facts: %+v", f)
	}
	conn, err := deploy.Attach(t.Context(), e, o.RunID)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := d.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := trial(t, conn); err != nil {
		t.Errorf("a trial without libvirtd: %v", err)
	}
	if said := string(e.(env.Diagnoser).Diagnose()); !strings.Contains(said, "Disconnected") {
		t.Errorf("the evidence does not say that libvirtd is gone:\n%s", said)
	}
	if err := e.Close(); err != nil {
		t.Errorf("close without libvirtd: %v", err)
	}
	if err := d.Run(); err != nil {
		t.Fatal(err)
	}
	if names, err := d.Domains(); err != nil || len(names) > 0 {
		t.Errorf("domains after libvirtd came back: %v, %v", names, err)
	}
	// One opening more is refused while it is gone, and says so.
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	_, err = testDriver(t, d).Open(t.Context(), options(t, o.Spec))
	if x, ok := errors.AsType[*env.OpenError](err); !ok || !strings.Contains(x.Error(), "libvirtd does not run") {
		t.Errorf("open without libvirtd: %v", err)
	}
}

// TestBuses boots domains with disks on other controllers, one of them by UEFI.
func TestBuses(t *testing.T) {
	if testing.Short() {
		t.Skip("two domains are booted")
	}
	t.Parallel()
	d := libvirttest.Shared(t)
	kernel(t, microvm.Generic)
	for _, c := range []struct{ machine, firmware, bus, disk string }{
		{"pc", "bios", "ide", "disk hda bus=ide "}, {"q35", "efi", "sata", "disk sda bus=sata "},
	} {
		t.Run(c.bus, func(t *testing.T) {
			t.Parallel()
			o := options(t, spec(d, append(slices.Clone(small), "machine", c.machine, "firmware", c.firmware, "bus",
				c.bus)...))
			e, err := testDriver(t, d).Open(t.Context(), o)
			if err != nil {
				x, _ := errors.AsType[*env.OpenError](err)
				t.Fatalf("%v\n%s", err, x.Evidence)
			}
			defer e.Close()
			conn, err := deploy.Attach(t.Context(), e, o.RunID)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			f, err := conn.Facts(t.Context())
			if err != nil || !strings.HasPrefix(f.WorkFS, "ext4") || f.Extra["work.disk.name"] != "sda" {
				t.Errorf("work is done on %q, disk %q: %v", f.WorkFS, f.Extra["work.disk.name"], err)
			}
			if x := e.Facts(); !strings.HasPrefix(x.Extra["domain.disk.0"], c.disk) || x.Settings["bus"] != c.bus ||
				(x.Extra["domain.firmware"] == "efi") != (c.firmware == "efi") {
				t.Errorf("facts: %+v", x)
			}
		})
	}
}

// TestNameTaken meets a domain of the name that tare would use, and leaves it alone.
func TestNameTaken(t *testing.T) {
	d := libvirttest.Shared(t)
	kernel(t, microvm.Cloud)
	o := options(t, spec(d, small...))
	taken := "tare-" + o.RunID + "-vm"
	virshTest(t, d, idle(taken, ""), "create", "/dev/stdin")
	defer virshTest(t, d, "", "destroy", taken)
	_, err := testDriver(t, d).Open(t.Context(), o)
	x, ok := errors.AsType[*env.OpenError](err)
	if !ok || !strings.Contains(x.Error(), "a domain of this name exists") {
		t.Errorf("%v", err)
	}
	if names, err := d.Domains(); err != nil || !slices.Contains(names, taken) {
		t.Errorf("the domain of that name is gone: %v, %v", names, err)
	}
}

// TestNamedDomain asks for domains that cannot be entered.
func TestNamedDomain(t *testing.T) {
	d := libvirttest.Shared(t)
	virshTest(t, d, idle("asleep", ""), "define", "/dev/stdin")
	defer virshTest(t, d, "", "undefine", "asleep")
	virshTest(t, d, idle("held", ""), "create", "/dev/stdin", "--paused")
	defer virshTest(t, d, "", "destroy", "held")
	virshTest(t, d, idle("awake", ""), "create", "/dev/stdin")
	defer virshTest(t, d, "", "destroy", "awake")
	ports := el("devices").with(el("serial", "type", "file").with(el("source", "path", t.TempDir()+"/said")),
		el("serial", "type", "unix").with(el("source", "mode", "bind", "path", t.TempDir()+"/line"))).String()
	virshTest(t, d, idle("mute", ports), "create", "/dev/stdin")
	defer virshTest(t, d, "", "destroy", "mute")
	for _, c := range []struct{ arg, setting, value, want, remedy string }{
		{"asleep", "", "", "domain asleep is shut off, not running", "start asleep"},
		{"held", "", "", "domain held is paused", "resume held"},
		{"awake", "", "", "libvirt knows no address of awake", "ssh="},
		{"awake", "serial", "0", "domain awake has no serial port 0", "mode='bind'"},
		{"mute", "serial", "0", "serial port 0 of domain mute is of type file", "mode='bind'"},
		{"mute", "serial", "1", "no guest within 1s", "tare guest media"},
		{"asleep", "serial", "0", "domain asleep is shut off, not running", "start asleep"},
		{"", "serial", "0", "serial= is for a domain that exists", ""},
		{"--all", "", "", "is not a domain's name", ""},
		{"awake", "memory", "1GiB", "memory= is for a micro-VM that tare makes", ""},
		{"", "ssh", "localhost", "ssh= is for a domain that exists", ""},
		{"", "bus", "ide", "bus=ide needs machine=pc", "bus=sata"},
	} {
		s := spec(d)
		if s.Arg = c.arg; c.setting != "" {
			s.Settings[c.setting] = c.value
		}
		if c.value == "1" {
			s.Settings["wait"] = "1s"
		}
		_, err := testDriver(t, d).Open(t.Context(), options(t, s))
		x, ok := errors.AsType[*env.OpenError](err)
		if !ok || !strings.Contains(x.Err.Error(), c.want) || !strings.Contains(x.Remedy, c.remedy) || x.Remedy == "" {
			t.Errorf("libvirt:%s: %v", c.arg, err)
		}
		if got := has(t.Context(), s); c.want == "domain "+c.arg+" is" && got.OK {
			t.Errorf("libvirt:%s is said to be there", c.arg)
		}
	}
}

// TestClean finds the domains of runs that are dead, and only those.
func TestClean(t *testing.T) {
	d := libvirttest.Shared(t)
	t.Setenv("LIBVIRT_DEFAULT_URI", d.URI)
	dead, alive := thisProcess("dead-run"), thisProcess("living-run")
	child, err := proc.Start(proc.Command(t.Context(), "sleep", "0"))
	if err != nil {
		t.Fatal(err)
	}
	dead.PID = child.Pid()
	<-child.Done()
	child.Close()
	metadata := func(o owner) string { return el("metadata").with(o.node()).String() }
	virshTest(t, d, idle("tare-dead", metadata(dead)), "create", "/dev/stdin")
	virshTest(t, d, idle("tare-alive", metadata(alive)), "create", "/dev/stdin")
	virshTest(t, d, idle("tare-of-a-user", ""), "create", "/dev/stdin")
	for _, dry := range []bool{true, false} {
		lines, err := clean(t.Context(), dry)
		if err != nil || !slices.Equal(lines, []string{"libvirt domain tare-dead of run dead-run"}) {
			t.Errorf("clean, dry %v: %q, %v", dry, lines, err)
		}
	}
	names, err := d.Domains()
	if want := []string{"tare-alive", "tare-of-a-user"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("domains are %v, %v, want %v", names, err, want)
	}
	for _, n := range names {
		virshTest(t, d, "", "destroy", n)
	}
}
