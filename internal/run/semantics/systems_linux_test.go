package semantics

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/lab/diskimage/disktest"
	"tare/internal/lab/env"
	"tare/internal/lab/mount"
	"tare/internal/measure/guestabi"
	"tare/internal/sys/proc"
)

// lack skips a test for want of something, and fails it where everything must be there.
func lack(t *testing.T, format string, a ...any) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf(format, a...)
	}
	t.Skipf(format, a...)
}

// needs checks that this is root, with the programs of a test.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		lack(t, "mounting needs root")
	}
	for _, p := range programs {
		if _, err := proc.LookPath(p); err != nil {
			lack(t, "%s is not installed", p)
		}
	}
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := proc.Run(context.WithoutCancel(t.Context()), nil, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// mounted mounts something until the test ends.
func mounted(t *testing.T, argv ...string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, append(argv, dir)...)
	t.Cleanup(func() { run(t, "umount", dir) })
	return dir
}

// disk makes a file system in a file and mounts it by a loop device.
func disk(t *testing.T, size int64, options string, mkfs ...string) string {
	t.Helper()
	needs(t, mkfs[0], "losetup", "mount")
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		t.Fatal(err)
	}
	run(t, append(mkfs, image)...)
	loop := disktest.Loop(t, image)
	dir := t.TempDir()
	run(t, "mount", "-o", options, loop, dir)
	t.Cleanup(func() { run(t, "umount", dir) })
	return dir
}

// kernelHas skips a test of a file system that this machine's kernel was built without: no program can be installed for
// that.
func kernelHas(t *testing.T, fs, feature string) {
	t.Helper()
	b, err := os.ReadFile("/proc/filesystems")
	if err == nil && !strings.Contains(string(b), "\t"+fs+"\n") {
		var release unix.Utsname
		if err = unix.Uname(&release); err == nil {
			_, err = os.Stat("/lib/modules/" + unix.ByteSliceToString(release.Release[:]))
		}
		if err == nil { // it may have the file system as a module
			needs(t, "modprobe")
			_, err = proc.Run(t.Context(), nil, "modprobe", fs)
		}
	}
	if err == nil && feature != "" {
		_, err = os.Stat(feature)
	}
	if err != nil {
		t.Skipf("the kernel of this machine has no %s: %v", strings.TrimSpace(fs+" "+filepath.Base(feature)), err)
	}
}

func TestExt4(t *testing.T) {
	dir := disk(t, 64<<20, "rw", "mke2fs", "-q", "-F", "-t", "ext4")
	inside, _ := sides(t, dir, "")
	card := made(t, inside, nil, Options{FS: "ext4"})
	want(t, card, yes, "case", "names", "d-type", "symlink", "hard-link", "exec-bit", "exec", "o-excl", "rename-open",
		"sparse", "xattr", "mmap", "o-direct")
	want(t, card, untested, "fsync")
	want(t, card, "1ns", "mtime")
}

func TestMountsCanForbidToRunPrograms(t *testing.T) {
	dir := disk(t, 64<<20, "noexec", "mke2fs", "-q", "-F", "-t", "ext4")
	inside, _ := sides(t, dir, "")
	card := made(t, inside, nil, Options{})
	want(t, card, yes, "exec-bit")
	want(t, card, no, "exec")
}

func TestFATHasNeitherLinksNorModes(t *testing.T) {
	kernelHas(t, "vfat", "")
	dir := disk(t, 64<<20, "rw", "mkfs.vfat")
	inside, _ := sides(t, dir, "")
	card := made(t, inside, nil, Options{FS: "vfat"})
	want(t, card, no, "case", "symlink", "hard-link", "exec-bit", "xattr", "sparse")
	want(t, card, partly, "names")
	want(t, card, yes, "o-excl", "rename-open", "mmap", "flock")
	want(t, card, "2s", "mtime")
	if p := card["mtime"]; p.Seconds != 2 || p.Rating != bad {
		t.Errorf("%+v", p)
	}
}

// TestNTFS tries out a real NTFS by way of FUSE, with names as Windows takes them.
func TestNTFS(t *testing.T) {
	needs(t, "lowntfs-3g", "mkntfs")
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 64<<20); err != nil {
		t.Fatal(err)
	}
	run(t, "mkntfs", "-Q", "-F", image)
	dir := mounted(t, "lowntfs-3g", "-o", "ignore_case,windows_names,fmask=0111", image)
	inside, _ := sides(t, dir, "")
	card := made(t, inside, nil, Options{FS: "fuseblk"})
	want(t, card, no, "case", "exec", "exec-bit")
	want(t, card, partly, "names")
	want(t, card, yes, "o-excl", "symlink", "rename-open", "mmap")
	want(t, card, "100ns", "mtime")
}

func TestFoldedCase(t *testing.T) {
	kernelHas(t, "ext4", "/sys/fs/ext4/features/casefold")
	dir := disk(t, 64<<20, "rw", "mke2fs", "-q", "-F", "-t", "ext4", "-O", "casefold")
	folded := filepath.Join(dir, "folded")
	if err := os.Mkdir(folded, 0o700); err != nil {
		t.Fatal(err)
	}
	needs(t, "chattr")
	run(t, "chattr", "+F", folded)
	inside, _ := sides(t, folded, "")
	card := made(t, inside, nil, Options{FS: "ext4"})
	want(t, card, no, "case", "unicode")
	want(t, card, yes, "symlink", "hard-link", "exec-bit")
}

func TestMemoryHasNothingToFlushTo(t *testing.T) {
	t.Parallel() // most of it is a wait
	needs(t, "mount")
	dir := mounted(t, "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs")
	inside, host := sides(t, dir, dir)
	card := made(t, inside, host, Options{FS: "tmpfs"})
	want(t, card, no, "fsync")
	if p := card["fsync"]; p.Rating != neutral {
		t.Errorf("%+v", p)
	}
	want(t, card, yes, "inotify-from-host", "flock-across", "mmap-from-host", "o-excl-across")
}

func TestOverlays(t *testing.T) {
	t.Parallel() // most of it is a wait
	needs(t, "mount")
	base := mounted(t, "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs")
	for _, d := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := mounted(t, "mount", "-t", "overlay", "overlay", "-o",
		fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", base))
	inside, host := sides(t, dir, dir)
	card := made(t, inside, host, Options{FS: "overlay"})
	want(t, card, yes, "d-type", "symlink", "hard-link", "rename-open", "inotify", "inotify-from-host", "mmap",
		"mmap-from-host", "flock-across")
}

// TestSSHFS tries out a real sshfs with OpenSSH's server on loopback, whose cache and deafness are known: attributes
// live for seconds, no event comes from the host, and locks stay inside.
func TestSSHFS(t *testing.T) {
	if testing.Short() {
		t.Skip("the client keeps attributes for seconds")
	}
	needs(t, "sshfs", "sshd", "ssh", "ssh-keygen", "fusermount3")
	base, err := os.MkdirTemp("", "tare-card-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	r := mount.Request{
		Spec: env.Spec{Name: "m", Driver: "sshfs", Settings: map[string]string{"dcache_timeout": "2"}}, RunID: "test",
		Dir: filepath.Join(base, "s"), Folder: filepath.Join(base, "f"),
	}
	for _, d := range []string{r.Dir, r.Folder} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s, err := mount.Serve(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	here := strings.NewReplacer(guestabi.HostAddress, "127.0.0.1", "/etc/tare/", base+"/etc/tare/", s.Order.Dir, dir)
	for _, f := range s.Order.Files {
		name := filepath.Join(base, f.Path)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(here.Replace(string(f.Data))), os.FileMode(f.Mode)); err != nil {
			t.Fatal(err)
		}
	}
	argv := []string{}
	for _, a := range s.Order.Command {
		argv = append(argv, here.Replace(a))
	}
	client, err := proc.Start(proc.Command(context.WithoutCancel(t.Context()), argv...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		run(t, "fusermount3", "-u", "-z", dir)
		client.Close()
	})
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if b, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(b), strings.ReplaceAll(dir, " ", `\040`)+" ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("sshfs mounted nothing: %s", client.Stderr())
		}
	}
	inside, host := sides(t, dir, r.Folder)
	card := made(t, inside, host, Options{FS: "fuse.sshfs"})
	want(t, card, yes, "symlink", "inotify", "inotify-to-host", "o-excl")
	want(t, card, no, "inotify-from-host", "flock-across", "fcntl-across")
	// Half a second less, because looking begins after the attributes came.
	if p := card["attr-cache"]; p.Seconds < 0.5 || p.Seconds > 30 || p.Rating != bad {
		t.Errorf("attributes live for %v s: %s", p.Seconds, p.Detail)
	}
	if p := card["lag-delete"]; p.Seconds < 0.5 {
		t.Errorf("a deleted file is seen for %v s: %s", p.Seconds, p.Detail)
	}
	if p := card["lag-create-host"]; p.Seconds > 5 {
		t.Errorf("a file made inside is on the host after %v s: %s", p.Seconds, p.Detail)
	}
}
