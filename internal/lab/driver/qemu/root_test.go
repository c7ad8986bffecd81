package qemu

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
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

// smallRoot makes a root image of busybox, with marks by which a test recognises it.
func smallRoot(t *testing.T) string {
	t.Helper()
	busybox, err := proc.LookPath("busybox")
	if err != nil {
		lacking(t, "busybox is not installed (apt-get install busybox-static)")
	}
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	for _, d := range []string{"bin", "usr/lib", "etc"} {
		if err := os.MkdirAll(filepath.Join(tree, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"bin/busybox": program, "etc/debian_version": []byte("0.0/tare-test\n"),
		"usr/lib/os-release": []byte("PRETTY_NAME=\"Small Root 1\"\n"),
	} {
		if err := os.WriteFile(filepath.Join(tree, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "cat", "ls", "mount", "touch"} {
		if err := os.Symlink("busybox", filepath.Join(tree, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	// Paths that the agent also uses, as links that lead out of the image; some distributions have such links.
	if err := os.Symlink("/var/run", filepath.Join(tree, "run")); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, "root.img")
	if out, err := proc.Run(t.Context(), nil, "mke2fs", "-q", "-F", "-t", "ext4", "-d", tree, image,
		"32M"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return image
}

// shell runs a command line like a workload, in a cell's directory below root, and returns its error.
func shell(t *testing.T, s *deploy.Conn, cell, line, root string) string {
	t.Helper()
	kind, ok := all.Lookup("command")
	if !ok {
		t.Fatal("there is no workload command")
	}
	params, err := kind.Resolve(map[string]string{"command": line, "timeout": "5m"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	got, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: "command", Params: params, Cell: cell, Root: root, Seed: 1},
		Work: 1})
	// The command succeeded. It was too short for a figure, but no figure is needed here.
	if err != nil && strings.Contains(err.Error(), "nothing is left to measure") {
		return ""
	}
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if f := got.Result.Error; f != nil {
		return f.Message + "\n" + f.Evidence
	}
	return ""
}

// TestRootImageIsWhereWorkersLive: the image's files, the directory on the scratch disk, the kernel's file systems and
// a mount are in one tree, and the image stays unchanged.
func TestRootImageIsWhereWorkersLive(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Generic)
	image := smallRoot(t)
	before, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "cpus", "1", "memory", "512MiB", "disk", "64MiB", "kernel",
		microvm.Generic, "root", image))
	o.Mounts = []env.Spec{{Name: "memory", Driver: "tmpfs"}}
	v, s := open(t, driver{}, o)
	if f := v.Facts(); f.Extra["root.image"] != image || f.Extra["root.format"] != "raw" ||
		len(f.Extra["root.sha256"]) != 64 || f.Settings["root"] != image {
		t.Errorf("facts %+v", f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	f, err := s.Facts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if f.Distro != "Small Root 1" || f.WorkDir != "/scratch" {
		t.Errorf("the guest says it is %q and works in %s", f.Distro, f.WorkDir)
	}
	for _, m := range v.Mounts() {
		if m.Err != nil {
			t.Fatal(m.Err)
		}
		if _, err := s.Mount(ctx, m.Order); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ what, line string }{
		{"a file of the image", `test "$(cat /etc/debian_version)" = 0.0/tare-test`},
		{"its directory", `case "$PWD" in /scratch/*) touch here && ls here ;; *) exit 1 ;; esac`},
		{"the kernel's view", `ls /proc/self/exe /sys/block/vda /dev/null && cat /proc/mounts && ! ls /guest`},
		{"a mount", `mount | busybox grep 'tmpfs on /mnt/memory'`},
		{"writing over the image", `echo changed > /etc/debian_version`},
		{"what was written", `test "$(cat /etc/debian_version)" = changed`},
	} {
		if said := shell(t, s, "c", c.line, ""); said != "" {
			t.Errorf("%s: %s", c.what, said)
		}
	}
	if said := shell(t, s, "m", `echo x > file && case "$PWD" in /mnt/memory/*) ;; *) exit 1 ;; esac`,
		"/mnt/memory"); said != "" {
		t.Errorf("work in the mount: %s", said)
	}
	nullTrial(t, s)
	s.Close()
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(image); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the image was written to (%v)", err)
	}
}
