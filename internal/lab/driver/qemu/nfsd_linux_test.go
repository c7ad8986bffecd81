package qemu

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/lab/mount"
	"tare/internal/measure/guestabi"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/run/semantics"
)

// TestSecondMachineServesNFS runs the kernel's own server in a second machine.
func TestSecondMachineServesNFS(t *testing.T) {
	if testing.Short() {
		t.Skip("the machine works for long")
	}
	t.Parallel()
	need(t, "amd64", microvm.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "64MiB", "kernel", microvm.Generic, "boot", "3m"))
	o.Mounts = mountSpecs(t, "n=nfs?server=vm&disk=128MiB", "mem=tmpfs",
		"n3=nfs?server=vm&vers=3&disk=128MiB&wsize=65536&recovery=soft&timeo=3000&actimeo=7&nconnect=2")
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	got, err := s.Mount(ctx, m.Order)
	if err != nil {
		t.Fatalf("%v\nserver: %s\nguest: %s", err, diagnose(m.Diagnose), v.Diagnose())
	}
	t.Logf("%s, mounted after %v: %+v", m.Mount.Server, time.Since(began), got)
	if got.Type != "nfs4" || got.Source != "10.64.0.1:/" ||
		!strings.Contains(got.Options, "rsize=1048576,wsize=1048576") {
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
	// The kernel rejects UDP, and a version without its module, with the same error number; the order contains the
	// explanation.
	_, err = s.Mount(ctx, &guestabi.Mount{
		Name: "udp", Dir: "/mnt/udp", Type: "nfs", Source: "10.64.0.1:/",
		Options: "vers=3,proto=udp,addr=10.64.0.1,nolock", Refused: mount.ErrNFSUDP.Error(),
	})
	if err == nil || !strings.Contains(err.Error(), mount.CodeNFSUDP) ||
		!strings.Contains(err.Error(), "use proto=tcp") {
		t.Errorf("NFS over UDP: %v", err)
	}
	t.Run("version 3", func(t *testing.T) { version3(t, v, s) })
	for _, text := range processes(t, "tare-"+o.RunID) {
		if strings.Contains(text, "hostfwd") || strings.Contains(text, "listen=") {
			t.Errorf("a machine has a port on the host: %s", text)
		}
	}
}

// version3 mounts from another second machine. NFS version 3 needs a port mapper on the server's side and the mount
// protocol on the client's, and there are no programs for them in the guest.
func version3(t *testing.T, v *vm, s *deploy.Conn) {
	m := mounted(t, v, "n3")
	if m.Err != nil {
		t.Fatalf("%v\n%s", m.Err, m.Err.(*env.OpenError).Evidence)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	got, err := s.Mount(ctx, m.Order)
	if err != nil {
		t.Fatalf("%v\nserver: %s\nguest: %s", err, diagnose(m.Diagnose), v.Diagnose())
	}
	t.Logf("%s, mounted after %v: %+v", m.Mount.Server, time.Since(began), got)
	if got.Type != "nfs" || got.Source != "10.64.2.1:/" {
		t.Errorf("it is %+v", got)
	}
	for _, want := range []string{"vers=3", "rsize=1048576", "wsize=65536", "soft", "timeo=3000", "nconnect=2",
		"acregmin=7", "proto=tcp", "mountproto=tcp", "local_lock=all"} {
		if !slices.Contains(strings.Split(got.Options, ","), want) {
			t.Errorf("option %s is not among %s", want, got.Options)
		}
	}
	if err := work(t, s, "fs.smallfiles", m.Mount.Dir, nil); err != nil {
		t.Errorf("work: %v\nserver: %s\nguest: %s", err, diagnose(m.Diagnose), v.Diagnose())
	}
	m.Mount.Type = got.Type
	made, err := semantics.For(ctx, s, &m, 0)
	if err != nil {
		t.Errorf("%v\nserver: %s\nguest: %s", err, diagnose(m.Diagnose), v.Diagnose())
	}
	answers := map[string]string{}
	for _, p := range made {
		answers[p.Name] = p.Answer
		t.Logf("%s: %s (%s)", p.Name, p.Answer, p.Detail)
	}
	for name, want := range map[string]string{"symlink": "yes", "hard-link": "yes", "o-excl": "yes"} {
		if answers[name] != want {
			t.Errorf("%s: %q, not %s", name, answers[name], want)
		}
	}
}

// The serving machine may die during a trial; then nothing answers or rejects requests. The trial ends at its deadline,
// although such a mount waits for ever. The evidence is from that machine, the other mounts go on, and nothing is left.
func TestSecondMachineKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("the machine works for long")
	}
	t.Parallel()
	needBeside(t, "amd64", microvm.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "64MiB", "kernel", microvm.Generic, "boot", "3m"))
	o.Mounts = mountSpecs(t, "n=nfs?server=vm&disk=64MiB&vers=4.0", "mem=tmpfs")
	v, s := open(t, driver{}, o)
	room := v.shares.dir
	for _, name := range []string{"n", "mem"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		m := mounted(t, v, name)
		if m.Err != nil {
			t.Fatal(m.Err)
		} else if _, err := s.Mount(ctx, m.Order); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	m, server := mounted(t, v, "n"), v.shares.list[0].second.vm.Pid()
	timer := time.AfterFunc(5*time.Second, func() { syscall.Kill(server, syscall.SIGKILL) })
	defer timer.Stop()
	// The first trial loses its server while it works. The second one, of another cell, finds no server at its
	// beginning.
	for _, cell := range []string{"endless", "late"} {
		err := endless(t, s, cell, m.Mount.Dir, 10*time.Second)
		t.Log(err)
		if err == nil {
			t.Fatal("a trial whose server was killed succeeds")
		}
		if !s.Alive() {
			t.Fatalf("the agent is lost: %v", err)
		}
	}
	if said := diagnose(m.Diagnose); !strings.Contains(string(said), "killed") {
		t.Errorf("the evidence does not tell that the server was killed: %s", said)
	}
	if err := work(t, s, "fs.smallfiles", mounted(t, v, "mem").Mount.Dir, nil); err != nil {
		t.Errorf("the other mount: %v", err)
	}
	s.Close()
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if left := staying(func() []string { return processes(t, o.RunID) }); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
	if _, err := os.Lstat(room); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", room, err)
	}
}

// endless runs a trial with more work than any system can do within the limit.
func endless(t *testing.T, s *deploy.Conn, cell, root string, limit time.Duration) error {
	t.Helper()
	kind, _ := all.Lookup("fs.smallfiles")
	params, err := kind.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	got, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: kind.Name, Params: params, Cell: cell, Seed: 1, Root: root},
		Work: 1 << 20})
	if err == nil && got.Result.Error != nil {
		return got.Result.Error
	}
	return err
}
