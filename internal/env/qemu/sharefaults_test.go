//go:build linux

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

	"tare/internal/guest"
)

// pids returns the processes of this machine whose command line has the text, and what they have started: a session of
// sshd shows another command line than its server.
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
		// QEMU names the sockets and folders of its devices, and is no server.
		if line := string(b); err == nil && strings.Contains(line, text) && !strings.Contains(line, "qemu-system") && pid != os.Getpid() {
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

// TestSharesThatFail takes away from shares what they are made of: first the files, then the server in the middle of a
// trial. Each time the trial fails with a message, the other mounts go on, and in the end nothing is left.
func TestSharesThatFail(t *testing.T) {
	need(t, "amd64", guest.Generic)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "64MiB", "kernel", guest.Generic, "boot", "2m"))
	o.Mounts = mountSpecs(t, "n=nfs?recovery=soft&timeo=10", "f=sshfs", "s=smb", "mem=tmpfs?size=64MiB", "stale=nfs?vers=3")
	v, s := open(t, driver{}, o)
	room := v.shares.dir
	for _, m := range v.Mounts() {
		if m.Err != nil {
			t.Fatal(m.Err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := s.Mount(ctx, m.Order)
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
	}
	others := func(t *testing.T) {
		t.Helper()
		if err := work(t, s, "fs.smallfiles", mounted(t, v, "mem").Mount.Dir, map[string]string{"size": "4KiB"}); err != nil {
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
		// With a warm cache the guest would not ask the server at all.
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
			began := time.Now()
			timer := time.AfterFunc(3*time.Second, func() {
				for _, pid := range pids(t, filepath.Join(room, strconv.Itoa(i))+"/") {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			})
			defer timer.Stop()
			err := endless(t, s, m.Mount.Dir, 45*time.Second)
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
	if left := pids(t, room); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), room) {
		t.Errorf("something is still mounted below %s: %v", room, err)
	}
	if _, err := os.Lstat(room); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", room, err)
	}
}
