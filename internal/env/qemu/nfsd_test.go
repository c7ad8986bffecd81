//go:build linux

package qemu

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/env"
	"tare/internal/guest"
)

// TestSecondMachineServesNFS has the kernel's own server serve in a machine of its own.
func TestSecondMachineServesNFS(t *testing.T) {
	need(t, "amd64", guest.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "64MiB", "kernel", guest.Generic, "boot", "2m"))
	o.Mounts = mountSpecs(t, "n=nfs?server=vm&disk=128MiB", "mem=tmpfs", "n3=nfs?server=vm&vers=3")
	v, s := open(t, driver{}, o)
	m := mounted(t, v, "n")
	if m.Err != nil {
		t.Fatal(m.Err)
	}
	for _, want := range []string{"addr=10.64.0.1", "clientaddr=10.64.0.2", "vers=4.2"} {
		if !slices.Contains(strings.Split(m.Order.Options, ","), want) {
			t.Errorf("the guest is to mount it with %s, without %s", m.Order.Options, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	got, err := s.Mount(ctx, m.Order)
	if err != nil {
		t.Fatalf("%v\nserver: %s\nguest: %s", err, diagnose(m.Diagnose), v.Diagnose())
	}
	t.Logf("%s, mounted after %v: %+v", m.Mount.Server, time.Since(began), got)
	if got.Type != "nfs4" || got.Source != "10.64.0.1:/" {
		t.Errorf("it is %+v", got)
	}
	if err := work(t, s, "fs.smallfiles", m.Mount.Dir, nil); err != nil {
		t.Errorf("work: %v\nserver: %s\nguest: %s", err, diagnose(m.Diagnose), v.Diagnose())
	}
	if !strings.Contains(m.Mount.Server, "nfsd") || !slices.Contains(m.Mount.Command, "-netdev") {
		t.Errorf("server %q, command %q", m.Mount.Server, m.Mount.Command)
	}
	if err := v.DropHostCaches(ctx); err != nil {
		t.Errorf("make it cold: %v", err)
	}
	x, ok := mounted(t, v, "n3").Err.(*env.OpenError)
	if !ok || x.Env != "vm:n3" || !strings.Contains(x.Error(), "mount protocol") || !strings.Contains(x.Remedy, "server=ganesha") {
		t.Errorf("version 3: %v", x)
	}
	for _, text := range processes(t, "tare-"+o.RunID) {
		if strings.Contains(text, "hostfwd") || strings.Contains(text, "listen=") {
			t.Errorf("a machine has a port on the host: %s", text)
		}
	}
}

// The machine that serves may die before the one that is served: its mount ends in an error with the evidence, the other
// mounts go on, and nothing is left.
func TestSecondMachineKilled(t *testing.T) {
	need(t, "amd64", guest.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "64MiB", "kernel", guest.Generic, "boot", "2m"))
	o.Mounts = mountSpecs(t, "n=nfs?server=vm&disk=64MiB&recovery=soft&timeo=10&vers=4.0", "mem=tmpfs")
	v, s := open(t, driver{}, o)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, name := range []string{"n", "mem"} {
		if m := mounted(t, v, name); m.Err != nil {
			t.Fatal(m.Err)
		} else if _, err := s.Mount(ctx, m.Order); err != nil {
			t.Fatal(err)
		}
	}
	sv := v.shares.list[0].second
	if err := syscall.Kill(sv.vm.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	m := mounted(t, v, "n")
	err := work(t, s, "fs.smallfiles", m.Mount.Dir, nil)
	if err == nil {
		t.Fatal("work without a server succeeds")
	}
	t.Logf("work: %v", err)
	if said := diagnose(m.Diagnose); !strings.Contains(string(said), "killed") {
		t.Errorf("the evidence does not tell that the server was killed: %s", said)
	}
	if err := work(t, s, "fs.smallfiles", mounted(t, v, "mem").Mount.Dir, nil); err != nil {
		t.Errorf("the other mount: %v", err)
	}
	room := v.shares.dir
	s.Close()
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if left := processes(t, o.RunID); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
	if _, err := os.Lstat(filepath.Join(room, "0")); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", room, err)
	}
}
