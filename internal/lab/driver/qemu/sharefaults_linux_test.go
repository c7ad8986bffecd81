package qemu

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/microvm"
)

// pids returns the processes of this machine whose command line contains the text, and their children: a session of
// sshd has another command line than its server.
func pids(t *testing.T, text string) (list []int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, n := range names {
		dir := filepath.Dir(n)
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if stat, err := os.ReadFile(filepath.Join(dir, "stat")); err == nil {
			_, rest, _ := strings.Cut(string(stat), ") ")
			if f := strings.Fields(rest); len(f) > 1 {
				parent, _ := strconv.Atoi(f[1])
				children[parent] = append(children[parent], pid)
			}
		}
		b, err := os.ReadFile(n)
		// QEMU's command line contains the sockets and folders of its devices, but QEMU is not a server.
		if line := string(b); err == nil && strings.Contains(line, text) && !strings.Contains(line, "qemu-system") &&
			pid != os.Getpid() {
			list = append(list, pid)
		}
	}
	for i := 0; i < len(list); i++ {
		for _, c := range children[list[i]] {
			if !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
	}
	return list
}

// TestSharesThatFail removes the files of shares, and then kills the server during a trial. Each time the trial fails
// with a message, the other mounts go on, and nothing is left at the end.
func TestSharesThatFail(t *testing.T) {
	t.Parallel()
	needBeside(t, "amd64", microvm.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "64MiB", "kernel", microvm.Generic, "boot", "3m"))
	o.Mounts = mountSpecs(t, "n=nfs?recovery=soft&timeo=10", "f=sshfs", "s=smb", "mem=tmpfs?size=64MiB",
		"stale=nfs?actimeo=0")
	v, s := open(t, driver{}, o)
	room := v.shares.dir
	for _, m := range v.Mounts() {
		if m.Err != nil {
			t.Fatal(m.Err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := s.Mount(ctx, m.Order)
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
	}
	others := func(t *testing.T) {
		t.Helper()
		if err := work(t, s, "fs.smallfiles", mounted(t, v, "mem").Mount.Dir,
			map[string]string{"size": "4KiB"}); err != nil {
			t.Errorf("another mount: %v", err)
		}
	}
	t.Run("more than fits", func(t *testing.T) {
		err := work(t, s, "fs.seqwrite", mounted(t, v, "mem").Mount.Dir, map[string]string{"size": "256MiB"})
		if err == nil || !strings.Contains(err.Error(), "free") {
			t.Errorf("a file of 256 MiB in 64 MiB: %v", err)
		}
		t.Log(err)
		others(t)
	})
	t.Run("stale", func(t *testing.T) {
		m := mounted(t, v, "stale")
		if err := work(t, s, "fs.randread", m.Mount.Dir, map[string]string{"size": "1MiB"}); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(m.Mount.HostDir)
		if err != nil || len(entries) == 0 {
			t.Fatalf("the host sees nothing: %v", err)
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(m.Mount.HostDir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		// With a warm cache the guest would not send requests to the server.
		err = work(t, s, "fs.randread", m.Mount.Dir, map[string]string{"size": "1MiB", "cache": "guest-cold"})
		if err == nil {
			t.Error("work goes on in a folder that was removed")
		} else if text := err.Error(); !strings.Contains(text, "stale") && !strings.Contains(text, "no such file") {
			t.Errorf("it does not say what is wrong: %v", err)
		}
		t.Log(err)
		others(t)
	})
	for i, name := range []string{"n", "f", "s"} {
		t.Run("killed "+name, func(t *testing.T) {
			m := mounted(t, v, name)
			limit := 45 * time.Second
			if name == "s" {
				limit = 15 * time.Second // SMB waits longer than this test
			}
			began := time.Now()
			timer := time.AfterFunc(3*time.Second, func() {
				for _, pid := range pids(t, filepath.Join(room, strconv.Itoa(i))+"/") {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			})
			defer timer.Stop()
			err := endless(t, s, "endless", m.Mount.Dir, limit)
			t.Logf("after %v: %v", time.Since(began), err)
			if err == nil {
				t.Fatal("a trial whose server was killed succeeds")
			}
			if said := string(m.Diagnose()); !strings.Contains(said, "killed") {
				t.Errorf("the evidence does not tell that the server was killed:\n%s", said)
			}
			if !s.Alive() {
				t.Fatalf("the agent is lost: %v", err)
			}
			others(t)
		})
	}
	s.Close()
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if left := staying(func() []int { return pids(t, room) }); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), room) {
		t.Errorf("something is still mounted below %s: %v", room, err)
	}
	if _, err := os.Lstat(room); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", room, err)
	}
}

// TestDiskOfAFullHost fills the host's file system with a machine's disk in it, which is larger than the free space.
// The guest gets an error; if QEMU stopped the machine instead, it would not answer any more.
func TestDiskOfAFullHost(t *testing.T) {
	repeats(t)
	need(t, "amd64", microvm.Cloud)
	if os.Geteuid() != 0 {
		lacking(t, "mounting needs root")
	}
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "none", "kernel", microvm.Cloud, "boot", "3m"))
	store, err := os.MkdirTemp("/tmp", "tare-full") // short, or another folder is used
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(store) })
	if err := syscall.Mount("tare-test", store, "tmpfs", 0, "size=200m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(store, 0); err != nil {
			t.Errorf("something is left open in %s: %v", store, err)
		}
	})
	t.Setenv("TMPDIR", store)
	o.Mounts = mountSpecs(t, "d=disk?size=128MiB", "mem=tmpfs")
	v, s := open(t, driver{}, o)
	for _, name := range []string{"d", "mem"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		m := mounted(t, v, name)
		if m.Err != nil {
			t.Fatal(m.Err)
		} else if _, err := s.Mount(ctx, m.Order); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	if m := mounted(t, v, "d"); !strings.HasPrefix(v.shares.dir, store) {
		t.Fatalf("%s is not on the small disk: %s", m.Name, v.shares.dir)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(store, &fs); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(store, "filler")
	if err := os.WriteFile(filler, make([]byte, int64(fs.Bavail)*fs.Bsize-8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err = work(t, s, "fs.seqwrite", mounted(t, v, "d").Mount.Dir,
		map[string]string{"size": "64MiB", "bs": "16MiB", "fsync": "end"})
	t.Logf("after %v: %v", time.Since(began), err)
	if err == nil {
		t.Error("64 MiB were written to a host that had 8")
	} else if text := err.Error(); !strings.Contains(text, "no space left") &&
		!strings.Contains(text, "input/output error") && !strings.Contains(text, "its disk failed") {
		// The last where the guest's kernel wrote back before the flush did, and gave the file system up.
		t.Errorf("it does not say what went wrong: %v", err)
	}
	if !s.Alive() {
		t.Fatal("the agent is lost")
	}
	if err := work(t, s, "fs.smallfiles", mounted(t, v, "mem").Mount.Dir, nil); err != nil {
		t.Errorf("the other mount: %v", err)
	}
	s.Close()
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filler); err != nil {
		t.Error(err)
	}
}
