package qemu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/sys/proc"
)

// mountSpecs are the mounts of a test that has all of them in one machine.
func mountSpecs(t testing.TB, texts ...string) []env.Spec {
	t.Helper()
	var specs []env.Spec
	for _, text := range texts {
		_, s, err := env.ParseMount("vm:" + text)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, s)
	}
	return specs
}

// work runs a trial on files in a mount.
func work(t testing.TB, s *deploy.Conn, kindName, root string, given map[string]string) error {
	t.Helper()
	kind, ok := all.Lookup(kindName)
	if !ok {
		t.Fatalf("there is no workload %s", kindName)
	}
	params, err := kind.Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: kindName, Params: params, Cell: "c", Seed: 1, Root: root},
		Work: 3})
	if err == nil && got.Result.Error != nil {
		return got.Result.Error
	}
	return err
}

// mounted returns the mount with that name.
func mounted(t testing.TB, v *vm, name string) env.Mounted {
	t.Helper()
	for _, m := range v.Mounts() {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("there is no mount %s", name)
	return env.Mounted{}
}

// processes returns the processes of this machine whose command line contains the text.
func processes(t testing.TB, text string) []string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, n := range names {
		b, err := os.ReadFile(n)
		if line := strings.ReplaceAll(string(b), "\x00", " "); err == nil && strings.Contains(line, text) &&
			filepath.Base(filepath.Dir(n)) != fmt.Sprint(os.Getpid()) {
			found = append(found, line)
		}
	}
	return found
}

// staying are the processes that still exist after those that were ended have had time to go.
func staying[T any](find func() []T) (left []T) {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if left = find(); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

func TestOwnMountsAreThereAsAskedFor(t *testing.T) {
	repeats(t)
	t.Parallel()
	need(t, "amd64", microvm.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "none", "memory", "512MiB", "kernel",
		microvm.Generic))
	o.Mounts = mountSpecs(t, "mem=tmpfs?size=64MiB", "e=disk?fs=ext4&size=64MiB&options=noatime,commit=7&cache=none",
		"x=disk?fs=xfs&size=300MiB",
		"b=disk?fs=btrfs&size=128MiB&cache=unsafe", "small=disk?fs=xfs&size=64MiB", "odd=disk?aio=native",
		"wrong=disk?colour=red")
	v, s := open(t, driver{}, o)
	room := v.shares.dir
	for _, c := range []struct {
		name, kind, source string
		options            []string
	}{
		{"mem", "tmpfs", "tmpfs", []string{"size=65536k"}},
		{"e", "ext4", "", []string{"noatime", "commit=7"}},
		{"x", "xfs", "", nil},
		{"b", "btrfs", "", nil},
	} {
		m := mounted(t, v, c.name)
		if m.Err != nil || m.Order == nil {
			t.Errorf("%s: %v", c.name, m.Err)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, err := s.Mount(ctx, m.Order)
		cancel()
		if err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, v.Diagnose())
			continue
		}
		t.Logf("%s: %+v", c.name, got)
		if got.Type != c.kind || c.source != "" && got.Source != c.source {
			t.Errorf("%s is %+v", c.name, got)
		}
		for _, o := range c.options {
			if !slices.Contains(strings.Split(got.Options, ","), o) {
				t.Errorf("%s has no option %s: %s", c.name, o, got.Options)
			}
		}
		if err := work(t, s, "fs.smallfiles", m.Mount.Dir, nil); err != nil {
			t.Errorf("%s: work: %v", c.name, err)
		}
	}
	for name, want := range map[string]string{"small": "at least 300MiB", "odd": "aio=native", "wrong": "colour"} {
		if m := mounted(t, v, name); m.Err == nil || !strings.Contains(m.Err.Error(), want) || m.Order != nil {
			t.Errorf("%s: %v", name, m.Err)
		}
	}
	if f := v.Facts(); f.Extra["mount.b.cache"] != "direct=off,no-flush=on,guest-write-cache=on" ||
		f.Extra["mount.e.cache"] != "direct=on,no-flush=off,guest-write-cache=on" {
		t.Errorf("facts %v", f.Extra)
	}
	s.Close()
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(room); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", room, err)
	}
}

func TestMountWithoutItsDriverFailsAlone(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	if kernels, err := microvm.Find("", "amd64", microvm.Cloud); err != nil {
		lacking(t, "%v", err)
	} else if index, err := microvm.ReadIndex(kernels[0].Modules); err != nil {
		lacking(t, "%v", err)
	} else if _, err := index.Resolve("9p"); err == nil {
		lacking(t, "the kernel %s has all drivers", kernels[0].Release)
	}
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "none", "kernel", microvm.Cloud))
	o.Mounts = mountSpecs(t, "9p", "mem=tmpfs")
	v, s := open(t, driver{}, o)
	m := mounted(t, v, "9p")
	x, ok := m.Err.(*env.OpenError)
	if !ok || x.Env != "vm:9p" || !strings.HasPrefix(x.Error(), "vm:9p: ") ||
		!strings.Contains(x.Remedy, "tare guest fetch --flavour generic") {
		t.Errorf("9p: %v", m.Err)
	}
	if slices.ContainsFunc(v.argv, func(a string) bool { return strings.Contains(a, "9p") }) {
		t.Errorf("the machine has a device for a mount that failed: %v", v.argv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if got, err := s.Mount(ctx, mounted(t, v, "mem").Order); err != nil || got.Type != "tmpfs" {
		t.Errorf("the other mount: %+v %v", got, err)
	}
}

func TestKernelWithTheDriversOfTheMostMountsIsTaken(t *testing.T) {
	need(t, "amd64", microvm.Generic)
	if all, err := microvm.Find("", "amd64", ""); err != nil || all[0].Flavour != microvm.Cloud {
		lacking(t, "the smaller kernel is not the first choice here: %v", err)
	}
	for _, c := range []struct {
		mounts  []string
		flavour string
	}{{nil, microvm.Cloud}, {[]string{"tmpfs", "virtiofs"}, microvm.Cloud},
		{[]string{"tmpfs", "9p"}, microvm.Generic}} {
		o := options(t, spec("arch", "x86_64", "accel", "tcg"))
		o.Mounts = mountSpecs(t, c.mounts...)
		b := &boot{Options: o}
		var err error
		if b.config, err = parse(&b.Spec); err != nil {
			t.Fatal(err)
		}
		if b.shares, err = b.serveMounts(t.Context(), o, nil); err != nil {
			t.Fatal(err)
		}
		err = b.chooseKernel()
		if err != nil || b.kernel.Flavour != c.flavour || len(b.shares.alive()) != len(c.mounts) {
			t.Errorf("%v: kernel %s, %d mounts, %v", c.mounts, b.kernel.Flavour, len(b.shares.alive()), err)
		}
		for _, x := range b.extra {
			if slices.Contains(b.modules, x) {
				t.Errorf("%v: module %s is listed twice", c.mounts, x)
			}
		}
		if err := b.shares.remove(); err != nil {
			t.Error(err)
		}
	}
}

// A program replaces QEMU and removes a disk before it starts the real QEMU, as another user of the folder could do.
func TestMountThatQEMURefusesFailsAlone(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	for _, machine := range []string{"q35", "microvm"} {
		t.Run(machine, func(t *testing.T) {
			if machine == "microvm" {
				repeats(t)
			}
			qemu, err := proc.LookPath("qemu-system-x86_64")
			if err != nil {
				t.Fatal(err)
			}
			o := options(t, spec("arch", "x86_64", "accel", "tcg", "machine", machine, "disk", "none", "kernel",
				microvm.Cloud))
			o.Mounts = mountSpecs(t, "good=disk?size=32MiB", "bad=disk?size=32MiB", "mem=tmpfs")
			dir := t.TempDir()
			script := fmt.Sprintf("#!/bin/sh\nrm -f /tmp/tare-run-%s-*/1/s/image/disk.img "+
				"\"$TMPDIR\"/tare-run-%s-*/1/s/image/disk.img\nexec %s \"$@\"\n", o.RunID, o.RunID, qemu)
			if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			v, s := open(t, driver{programs: dir}, o)
			x, ok := mounted(t, v, "bad").Err.(*env.OpenError)
			if !ok || !strings.Contains(x.Error(), "disk.img") || len(x.Evidence) == 0 {
				t.Errorf("the mount that QEMU refused: %v", x)
			}
			if r := v.Retries(); len(r) > 0 {
				t.Errorf("the machine itself did not fail: %v", r)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if got, err := s.Mount(ctx, mounted(t, v, "good").Order); err != nil || got.Type != "ext4" {
				t.Errorf("the other disk: %+v %v", got, err)
			}
		})
	}
}

// The servers end when their machine has powered off.
func TestServersEndWithTheMachine(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "none", "kernel", microvm.Generic))
	o.Mounts = mountSpecs(t, "virtiofs")
	v, s := open(t, driver{}, o)
	if m := mounted(t, v, "virtiofs"); m.Err != nil {
		lacking(t, "%v", m.Err)
	}
	if len(processes(t, v.shares.dir)) < 2 {
		t.Errorf("running are only %q", processes(t, v.shares.dir))
	}
	t.Logf("boot to first word: %s ms", v.Facts().Extra["boot_ms"])
	began := time.Now()
	s.Close() // the agent ends, and the machine powers off
	if left := staying(func() []string { return processes(t, v.shares.dir) }); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
	t.Logf("all ended within %v", time.Since(began))
}

// microvm has no PCI, and arm64 cannot run this machine's programs.
func TestMountsOnOtherMachines(t *testing.T) {
	repeats(t)
	t.Parallel()
	for _, c := range []struct{ arch, machine, flavour string }{
		{"amd64", "microvm", microvm.Generic}, {"arm64", "virt", microvm.Cloud},
	} {
		t.Run(c.machine, func(t *testing.T) {
			need(t, c.arch, c.flavour)
			o := options(t, spec("arch", archName(c.arch), "accel", "tcg", "machine", c.machine, "disk", "64MiB",
				"kernel", c.flavour, "boot", "3m"), "linux/"+c.arch)
			texts := []string{"disk?size=64MiB", "virtiofs", "mem=tmpfs"}
			if c.flavour == microvm.Generic {
				texts = append(texts, "9p") // cloud kernels lack 9p
			}
			o.Mounts = mountSpecs(t, texts...)
			v, s := open(t, driver{}, o)
			for _, m := range v.Mounts() {
				if m.Err != nil {
					t.Errorf("%s: %v", m.Name, m.Err)
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				got, err := s.Mount(ctx, m.Order)
				cancel()
				if err != nil {
					t.Errorf("%s: %v", m.Name, err)
				}
				t.Logf("%s: %+v", m.Name, got)
			}
		})
	}
}
