package qemu

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/lab/microvm"
	"tare/internal/lab/rootfs"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// partitioned puts a file system into the first partition of a qcow2 image, like the images of distributions.
func partitioned(t *testing.T, image string) string {
	t.Helper()
	fs, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	const start = 1 << 20
	disk := make([]byte, start, start+len(fs))
	entry := disk[446:462] // entry of a master boot record: type, first sector, number of sectors
	entry[4] = 0x83
	binary.LittleEndian.PutUint32(entry[8:], start/512)
	binary.LittleEndian.PutUint32(entry[12:], uint32(len(fs)/512))
	disk[510], disk[511] = 0x55, 0xaa
	raw := filepath.Join(t.TempDir(), "disk.raw")
	if err := os.WriteFile(raw, append(disk, fs...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := proc.LookPath("qemu-img"); err != nil {
		lacking(t, "qemu-img is not installed")
	}
	if _, err := proc.Run(t.Context(), nil, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw,
		raw+".qcow2"); err != nil {
		t.Fatal(err)
	}
	return raw + ".qcow2"
}

// TestRootImageAndProgramsOfMounts: a mount's programs are in the initramfs and not in the image, but workers still see
// the mounted folder. The image has a partition, and the guest has no scratch disk.
func TestRootImageAndProgramsOfMounts(t *testing.T) {
	repeats(t)
	t.Parallel()
	need(t, "amd64", microvm.Generic)
	for _, program := range []string{"sshfs", "ssh"} {
		if _, err := proc.LookPath(program); err != nil {
			lacking(t, "%s is not installed", program)
		}
	}
	image := partitioned(t, smallRoot(t))
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "cpus", "1", "memory", "512MiB", "disk", "none", "kernel",
		microvm.Generic, "root", image))
	o.Mounts = []env.Spec{{Name: "far", Driver: "sshfs"},
		{Name: "near", Driver: "9p", Settings: map[string]string{"dir": "/srv/deep/near"}}}
	v, s := open(t, driver{}, o)
	if f := v.Facts(); f.Extra["root.format"] != "qcow2" {
		t.Errorf("facts %+v", f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, m := range v.Mounts() {
		if m.Err != nil {
			t.Fatal(m.Err)
		}
		if _, err := s.Mount(ctx, m.Order); err != nil {
			t.Fatal(err)
		}
		if said := shell(t, s, "m", `echo x > file && cat file && case "$PWD" in `+m.Mount.Dir+
			`/*) ;; *) exit 1 ;; esac`, m.Mount.Dir); said != "" {
			t.Errorf("work in %s: %s", m.Name, said)
		}
	}
	if said := shell(t, s, "c", `case "$PWD" in /tmp/*) touch here ;; *) exit 1 ;; esac && cat /etc/debian_version`,
		""); said != "" {
		t.Errorf("work in memory: %s", said)
	}
}

func TestRootImageWithoutAFileSystemIsRefused(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	image := filepath.Join(t.TempDir(), "nothing")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	x := fails(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "cpus", "1", "memory", "256MiB", "disk",
		"none", "root", image)))
	if !strings.Contains(x.Error(), "has no ext4 file system") {
		t.Errorf("%v\n%s", x, x.Evidence)
	}
}

// restoreOnce restores a megabyte into a real server, and returns the trial's result.
func restoreOnce(t *testing.T, s *deploy.Conn, tools string) wire.Result {
	t.Helper()
	kind, ok := all.Lookup("restore")
	if !ok {
		t.Fatal("there is no workload restore")
	}
	params, err := kind.Resolve(map[string]string{"size": "1MiB", "load": "postgresql", "tools": tools})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	got, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: "restore", Params: params, Cell: "restore", Seed: 1}, Work: 1})
	if err != nil {
		if f, ok := errors.AsType[*record.Failure](err); ok {
			t.Logf("evidence:\n%s", f.Evidence)
		}
		t.Fatalf("restore with tools=%s: %v", tools, err)
	}
	r := got.Result
	t.Logf("tools=%s: prepared in %v, restored in %v; cluster made %s in %s ms, server started in %s ms", tools,
		time.Duration(r.SetupNS).Round(time.Millisecond),
		time.Duration(r.ElapsedNS).Round(time.Millisecond), r.State["cluster"], r.State["cluster_ms"],
		r.State["server_ms"])
	return r
}

// TestDebianRootRestoresIntoPostgreSQL boots the image of tare guest build, and restores with its programs. The restore
// itself compares every row and file with the backup. This test checks that it did so, with which programs, and that
// the second trial used what the first one prepared.
func TestDebianRootRestoresIntoPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("the machine works for long")
	}
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	img, err := rootfs.Build(ctx, rootfs.Options{Arch: "amd64",
		Packages: []string{"bzip2", "nginx-light", "postgresql"}})
	if err != nil {
		lacking(t, "build root image: %v", err)
	}
	v, s := open(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "memory", "1GiB", "root", "debian",
		"packages", "postgresql,nginx-light,bzip2")))
	if f := v.Facts(); f.Extra["root.sha256"] != img.SHA256 || f.Extra["root.image"] != img.Path ||
		!strings.Contains(f.Extra["root.packages"], "postgresql ") {
		t.Errorf("facts %+v", f.Extra)
	}
	facts, err := s.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(facts.Distro, "Debian GNU/Linux") {
		t.Errorf("the guest is %q", facts.Distro)
	}
	if said := shell(t, s, "version", `/bin/sh -c 'cat /etc/debian_version' | grep '^[0-9]'`, ""); said != "" {
		t.Error(said)
	}
	first, second := restoreOnce(t, s, "environment"), restoreOnce(t, s, "own")
	if first.State["cluster"] != "now" || second.State["cluster"] != "earlier" ||
		second.State["prepared"] != "earlier" {
		t.Errorf("the first trial: %v, the second: %v", first.State, second.State)
	}
	if first.State["postgres_user"] != "postgres" || first.State["postgres"] == "" ||
		first.State["tools"] != "environment" {
		t.Errorf("restored with %v", first.State)
	}
	if len(first.Checks) != 6 || !maps.Equal(first.Checks, second.Checks) {
		t.Errorf("restored %v, then %v", first.Checks, second.Checks)
	}
	for name, r := range envtest.Pages(t, s, 50, 1) {
		if r.Metrics["server_cpu_us"] <= 0 {
			t.Errorf("%s: figures %v", name, r.Metrics)
		}
	}
	if err := img.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}
