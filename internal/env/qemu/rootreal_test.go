package qemu

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/env"
	"tare/internal/guest"
	"tare/internal/proc"
	"tare/internal/rootfs"
)

// partitioned puts a file system into the first partition of a qcow2 image, as distributions' images have it.
func partitioned(t *testing.T, image string) string {
	t.Helper()
	fs, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	const start = 1 << 20
	disk := make([]byte, start, start+len(fs))
	entry := disk[446:462] // of a master boot record: type, first sector, number of sectors
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
	if _, err := proc.Run(t.Context(), nil, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, raw+".qcow2"); err != nil {
		t.Fatal(err)
	}
	return raw + ".qcow2"
}

// TestRootImageAndProgramsOfMounts: the programs of a mount are in the initramfs and not in the image, and the folder that
// they mount is seen by workers all the same. The image is one with a partition, and the guest has no scratch disk.
func TestRootImageAndProgramsOfMounts(t *testing.T) {
	need(t, "amd64", guest.Generic)
	for _, program := range []string{"sshfs", "ssh"} {
		if _, err := proc.LookPath(program); err != nil {
			lacking(t, "%s is not installed", program)
		}
	}
	image := partitioned(t, smallRoot(t))
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "cpus", "1", "memory", "512MiB", "disk", "none", "kernel", guest.Generic, "root", image))
	o.Mounts = []env.Spec{{Name: "far", Driver: "sshfs"}, {Name: "near", Driver: "9p", Settings: map[string]string{"dir": "/srv/deep/near"}}}
	v, s := open(t, driver{}, o)
	if f := v.Facts(); f.Extra["root.format"] != "qcow2" {
		t.Errorf("facts %+v", f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, m := range v.Mounts() {
		if m.Err != nil {
			t.Fatal(m.Err)
		}
		if _, err := s.Mount(ctx, m.Order); err != nil {
			t.Fatal(err)
		}
		if said := shell(t, s, "m", `echo x > file && cat file && case "$PWD" in `+m.Mount.Dir+`/*) ;; *) exit 1 ;; esac`, m.Mount.Dir); said != "" {
			t.Errorf("work in %s: %s", m.Name, said)
		}
	}
	if said := shell(t, s, "c", `case "$PWD" in /tmp/*) touch here ;; *) exit 1 ;; esac && cat /etc/debian_version`, ""); said != "" {
		t.Errorf("work in memory: %s", said)
	}
}

func TestRootImageWithoutAFileSystemIsRefused(t *testing.T) {
	need(t, "amd64", guest.Cloud)
	image := filepath.Join(t.TempDir(), "nothing")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	x := fails(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "cpus", "1", "memory", "256MiB", "disk", "none", "root", image)))
	if !strings.Contains(x.Error(), "holds no ext4 file system") {
		t.Errorf("%v\n%s", x, x.Evidence)
	}
}

// TestDebianRootRunsPostgreSQL boots the image that tare guest build makes.
func TestDebianRootRunsPostgreSQL(t *testing.T) {
	need(t, "amd64", guest.Cloud)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	img, err := rootfs.Build(ctx, rootfs.Options{Arch: "amd64", Packages: []string{"postgresql"}})
	if err != nil {
		lacking(t, "build root image: %v", err)
	}
	v, s := open(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "memory", "1GiB", "root", "debian", "packages", "postgresql")))
	if f := v.Facts(); f.Extra["root.sha256"] != img.SHA256 || f.Extra["root.image"] != img.Path || !strings.HasPrefix(f.Extra["root.packages"], "postgresql ") {
		t.Errorf("facts %+v", f.Extra)
	}
	facts, err := s.Facts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(facts.Distro, "Debian GNU/Linux") {
		t.Errorf("the guest is %q", facts.Distro)
	}
	if said := shell(t, s, "version", `/bin/sh -c 'cat /etc/debian_version' | grep '^[0-9]'`, ""); said != "" {
		t.Error(said)
	}
	line := `chmod 711 . .. && mkdir data && chown postgres data &&
		setpriv --reuid=postgres --regid=postgres --clear-groups /usr/lib/postgresql/*/bin/initdb -D "$PWD/data" && test -s data/PG_VERSION`
	if said := shell(t, s, "initdb", line, ""); said != "" {
		t.Error(said)
	}
	if err := img.Verify(ctx); err != nil {
		t.Error(err)
	}
}
