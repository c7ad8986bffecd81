//go:build amd64

package virtualbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/lab/medium"
	"tare/internal/lab/microvm"
	"tare/internal/sys/proc"
)

// user is a VirtualBox of somebody who has a machine, in a session of its own.
type user struct {
	*session
	t   *testing.T
	dir string
}

const theirs = "their machine"

func newUser(t *testing.T) *user {
	t.Helper()
	p, err := find(os.Getenv(rootVar))
	if err != nil {
		t.Fatal(err)
	}
	u := &user{t: t, dir: t.TempDir()}
	if u.session, err = p.open(t.Context(), "user", u.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

func (u *user) do(args ...string) {
	u.t.Helper()
	if _, err := u.run(u.t.Context(), args...); err != nil {
		u.t.Fatal(err)
	}
}

// makeMachine makes a machine with a disk, without a snapshot. It boots from that disk if it is given, a VDI.
func (u *user) makeMachine(vdi string) {
	u.t.Helper()
	u.do("createvm", "--name", theirs, "--ostype", "Linux_64", "--register", "--basefolder",
		u.inside(filepath.Join(u.dir, "VirtualBox VMs")))
	u.do("modifyvm", theirs, "--memory", "160", "--cpus", "1", "--graphicscontroller", none, "--audio-enabled", "off",
		"--nic1", none, "--boot1", "disk", "--boot2", none, "--boot3", none, "--boot4", none, "--ioapic", "on",
		"--vm-execution-engine", interpreter)
	u.do("storagectl", theirs, "--name", "ide", "--add", "ide")
	if vdi == "" {
		u.addDisk("own", 0)
		return
	}
	u.do("storageattach", theirs, "--storagectl", "ide", "--port", "0", "--device", "0", "--type", "hdd", "--medium",
		u.inside(vdi))
}

func (u *user) addDisk(called string, port int, more ...string) {
	u.t.Helper()
	disk := u.inside(filepath.Join(u.dir, "VirtualBox VMs", theirs, called+".vdi"))
	u.do("createmedium", "disk", "--filename", disk, "--size", "64")
	u.do(append([]string{"storageattach", theirs, "--storagectl", "ide", "--port", fmt.Sprint(port), "--device", "0",
		"--type", "hdd", "--medium", disk}, more...)...)
}

// files has a digest of each of the user's files but logs.
func (u *user) files() map[string]string {
	u.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(u.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(name, ".log") {
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = fmt.Sprintf("%x", sha256.Sum256(text))
		return err
	})
	if err != nil {
		u.t.Fatal(err)
	}
	return all
}

// clone opens a clone of the user's machine.
func (u *user) clone(dir string, pairs ...string) (env.Env, error) {
	o := env.Options{Spec: spec(append([]string{"clone", linked, "engine", interpreter, "boot", "20m"},
		pairs...)...), RunID: "clone",
		Dir: dir, Log: slog.New(slog.DiscardHandler)}
	o.Arg = theirs
	b := driver{}.newBoot(o)
	return b.try(u.t.Context(), func(ctx context.Context) (*vm, error) { return b.openClone(ctx, u.session) })
}

// refused checks that no clone is opened, and that nothing of one is left.
func (u *user) refused(dir string, says []string, pairs ...string) {
	u.t.Helper()
	before := u.files()
	e, err := u.clone(dir, append([]string{"boot", "10s"}, pairs...)...)
	if err == nil {
		u.t.Errorf("it was cloned: %v", e.Close())
		return
	}
	for _, words := range says {
		if !strings.Contains(err.Error(), words) {
			u.t.Errorf("%v; want %q", err, words)
		}
	}
	u.unchanged(before, dir)
}

// unchanged checks that the user's files are as they were, and that nothing is left in the run's directory.
func (u *user) unchanged(before map[string]string, dir string) {
	u.t.Helper()
	if after := u.files(); !maps.Equal(before, after) {
		u.t.Errorf("the user's files were %v and are %v", before, after)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		u.t.Errorf("left in the run's directory: %v, %v", left, err)
	}
	if out, err := u.run(u.t.Context(), "list", "vms"); err != nil || strings.Count(string(out), "{") != 1 {
		u.t.Errorf("machines of the user: %s, %v", out, err)
	}
}

// TestCloneRefused needs no boot.
func TestCloneRefused(t *testing.T) {
	need(t)
	u, dir := newUser(t), t.TempDir()
	u.makeMachine("")
	u.refused(dir, []string{"it has no snapshot", `VBoxManage snapshot "` + theirs + `" take tare`})
	u.do("snapshot", theirs, "take", "fresh & clean")
	u.refused(dir, []string{`no snapshot "stale"; there are: fresh & clean`}, "snapshot", "stale")
	u.refused(dir, []string{"memory= is not possible", "leave it out"}, "memory", "1GiB")
	u.modify("--cpus", "2")
	u.refused(dir, []string{"2 CPUs", "runs one only"})
	u.modify("--cpus", "1")

	// The host's disk is full, or gets full on the way: the second and the third have room for some of the files.
	for options, says := range map[string][]string{
		"size=1m":               {"free, but a clone needs 64MiB", "free some space"},
		"size=100m,nr_inodes=6": {"clone the machine", "free some space"},
		"size=100m,nr_inodes=8": {"clone the machine", "free some space"},
	} {
		u.refused(tmpfs(t, options), says)
	}

	// A guest that starts again, as Linux does after a panic, is not waited for.
	u.addPanic()
	u.do("snapshot", theirs, "take", "panics")
	u.refused(dir, []string{"VirtualBox's process ended", "switched itself off or started again", "no init found"},
		"boot", "20m")

	// A disk that snapshots leave out would be the user's own.
	u.addDisk("shared", 1, "--mtype", "writethrough")
	u.do("snapshot", theirs, "take", "with a shared disk")
	u.refused(dir, []string{"shared.vdi", "writethrough", "detach it"})
}

// addPanic adds a disk whose boot sector says something on the serial line and resets the machine.
func (u *user) addPanic() {
	u.t.Helper()
	sector := make([]byte, 1<<20)
	copy(sector, []byte{
		0x31, 0xc0, 0x8e, 0xd8, 0xbe, 0x40, 0x7c, // xor ax, ax; mov ds, ax; mov si, 0x7c40
		0xac, 0x84, 0xc0, 0x74, 0x12, 0x88, 0xc3, // next: lodsb; test al, al; jz reset; mov bl, al
		0xba, 0xfd, 0x03, 0xec, 0xa8, 0x20, 0x74, 0xfb, // mov dx, 0x3fd; wait: in al, dx; test al, 0x20; jz wait
		0x88, 0xd8, 0xba, 0xf8, 0x03, 0xee, 0xeb, 0xe9, // mov al, bl; mov dx, 0x3f8; out dx, al; jmp next
		0xb0, 0xfe, 0xe6, 0x64, 0xf4, 0xeb, 0xfd, // reset: mov al, 0xfe; out 0x64, al; hlt; jmp to hlt
	})
	// The last that was said may still be on its way when the machine ends.
	copy(sector[0x40:], "no init found"+strings.Repeat("\r\n", 100))
	copy(sector[510:], []byte{0x55, 0xaa})
	raw := filepath.Join(u.dir, "raw")
	if err := os.WriteFile(raw, sector, 0o600); err != nil {
		u.t.Fatal(err)
	}
	disk := u.inside(filepath.Join(u.dir, "VirtualBox VMs", theirs, "panic.vdi"))
	u.do("convertfromraw", u.inside(raw), disk, "--format", "VDI")
	u.do("storageattach", theirs, "--storagectl", "ide", "--port", "0", "--device", "0", "--type", "hdd", "--medium",
		disk)
}

// tmpfs mounts a small file system.
func tmpfs(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tare-test", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (u *user) modify(args ...string) {
	u.t.Helper()
	u.do(append([]string{"modifyvm", theirs}, args...)...)
}

// TestClone boots a linked clone of a machine that runs, from a snapshot that is not the current one. What it boots is
// the medium as a disk: a VDI, as `tare guest media` writes it.
func TestClone(t *testing.T) {
	need(t)
	u, dir := newUser(t), onDisk(t)
	kernels, err := microvm.Find("", "amd64", microvm.Cloud)
	if err != nil {
		t.Fatal(err)
	}
	vdi := filepath.Join(u.dir, "tare.vdi")
	if _, err := medium.Write(t.Context(), vdi, medium.Options{Format: "vdi", Kernel: kernels[0],
		Agents: agenttest.Store(t), Interpreted: true}); err != nil {
		t.Fatal(err)
	}
	u.makeMachine(vdi)
	u.do("snapshot", theirs, "take", "first")
	u.modify("--memory", "256")
	u.do("snapshot", theirs, "take", "second")

	// It runs, and has its disks and its medium open; it waits, so that it takes no time.
	u.startPaused()
	before := u.files()

	e, err := u.clone(dir, "snapshot", "first")
	if err != nil {
		if x, ok := errors.AsType[*env.OpenError](err); ok {
			t.Logf("%s", x.Evidence)
		}
		t.Fatal(err)
	}
	defer e.Close()
	conn, err := deploy.Attach(t.Context(), e, "clone")
	if err != nil {
		t.Fatal(err)
	}
	if in, err := conn.Facts(t.Context()); err != nil || in.Hypervisor != name {
		t.Errorf("the guest says %q, %v", in.Hypervisor, err)
	}
	if f := e.Facts(); f.MemoryBytes != 160<<20 || f.Extra["virtualbox.clone.snapshot"] != "first" ||
		f.Extra["virtualbox.clone.of"] != theirs || !f.Emulated || f.Extra["boot_cpu_ms"] == "" {
		t.Errorf("%+v", f)
	}
	v := e.(*vm)
	if len(v.images) != 2 {
		t.Errorf("its disk is one of differences to the user's, not %v", v.images)
	}
	if err := v.DropHostCaches(t.Context()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(conn.Close(), e.Close()); err != nil {
		t.Error(err)
	}
	u.unchanged(before, dir)
	if info, err := u.info(t.Context(), theirs); err != nil || info["VMState"] != "paused" {
		t.Errorf("the user's machine was paused, and is %q, %v", info["VMState"], err)
	}
}

// startPaused starts the user's machine, which is ended with the test. VirtualBox lets go of a machine a moment after
// it took a snapshot, and refuses to start it until then.
func (u *user) startPaused() {
	u.t.Helper()
	for try := 1; ; try++ {
		running, err := proc.Start(u.command(context.WithoutCancel(u.t.Context()), python, "-c", launcher,
			u.session.folder(), "--startvm", theirs, "--vrde", "off", "--start-paused"))
		if err != nil {
			u.t.Fatal(err)
		}
		end := func() {
			running.Kill()
			<-running.Done()
			running.Close()
		}
		if u.paused(running) {
			u.t.Cleanup(func() {
				u.run(context.WithoutCancel(u.t.Context()), "controlvm", theirs, "poweroff")
				end()
			})
			return
		}
		said := string(running.Stderr())
		end()
		if try == 20 || !strings.Contains(said, "lock") {
			u.t.Fatalf("it ended: %s", said)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// paused waits until the user's machine is paused. It is not where its process ended.
func (u *user) paused(running *proc.Stream) bool {
	u.t.Helper()
	for {
		// While the machine starts, VirtualBox may refuse to show it.
		if info, err := u.info(u.t.Context(), theirs); err == nil && info["VMState"] == "paused" {
			return true
		}
		select {
		case <-running.Done():
			return false
		case <-u.t.Context().Done():
			u.t.Fatal("it was not paused")
		case <-time.After(200 * time.Millisecond):
		}
	}
}
