package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare/internal/bundle"
)

// TestFleetOnFullDisks has one host whose disk is too small for the program, and one whose disk fills while it works.
// Both are named with the reason, a third one counts, and with more room the command goes on with them.
func TestFleetOnFullDisks(t *testing.T) {
	l := newLab(t)
	s := l.sshd()
	need(t, "unshare", "mount")
	there := l.folder("there")
	program, err := os.Stat(tareBinary)
	if err != nil {
		t.Fatal(err)
	}
	const disk = `mount -t tmpfs -o size="$2" none "$3"`
	small, full := s.host("small"), s.host("full")
	small.boot(disk, "4m", there)
	// The program, the plan and the lock fit, and some pages of a bundle.
	full.boot(disk, strconv.FormatInt((program.Size()+40<<10*int64(os.Getpagesize())/4096)>>10, 10)+"k", there)
	l.file("plan.yaml", fleetPlan(12))
	l.inventory(map[string]int{"ok": s.port, "small": small.port, "full": full.port})
	args := s.fleet("plan.yaml", "nodes", there)
	o := l.do(args...)
	said := strings.Join(strings.Fields(o.err), " ")
	if o.code != 0 || !strings.Contains(o.out, "counted: 1 of 3 hosts") {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	for _, want := range []string{"failed small: put tare: ", "No space left on device", "failed full, job ",
		"the disk is full"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, o.err)
		}
	}
	for _, want := range []string{"missing: full, small", "Not in it: 2 missing"} {
		if text := strings.Join(strings.Fields(o.out), " "); !strings.Contains(text, want) &&
			!strings.Contains(text, "missing: small, full") {
			t.Errorf("no %q in:\n%s", want, o.out)
		}
	}
	// What did not fit does not fill the disk.
	inside := func(h *sshHost, argv ...string) string {
		pid := 0
		for _, p := range h.below("sshd") {
			pid = p
		}
		return l.ask(append([]string{"nsenter", "--mount", "--target", strconv.Itoa(pid)}, argv...)...)
	}
	if left := inside(small, "find", there, "-name", "*.part"); left != "" {
		t.Errorf("left on the small disk: %s", left)
	}
	for _, h := range []*sshHost{small, full} {
		if said := inside(h, "mount", "-o", "remount,size=400m", there); said != "" {
			t.Fatal(said)
		}
	}
	if o = l.do(args...); o.code != 0 || !strings.Contains(o.out, "counted: all 3 hosts") {
		t.Errorf("with more room: exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	for _, h := range []*sshHost{small, full} {
		if left := inside(h, "ls", "-A", there); left != "" {
			t.Errorf("left on %s: %s", filepath.Base(h.dir), left)
		}
	}
}

// TestFleetControllersDiskIsFull has the controller's own folder full while a host works. The host goes on, nothing is
// lost, and with room again its result counts, once.
func TestFleetControllersDiskIsFull(t *testing.T) {
	l := newLab(t)
	s := l.sshd()
	there := l.folder("there")
	disk := l.mount("tmpfs", "size=1m")
	l.file("plan.yaml", fleetPlan(12))
	l.inventory(map[string]int{"n1": s.port})
	args := s.fleet("plan.yaml", filepath.Join(disk, "nodes"), there)
	p := l.start(args...)
	part := func() string {
		found, _ := filepath.Glob(filepath.Join(there, ".tare-fleet-*", "part"))
		if len(found) != 1 {
			return ""
		}
		name, _ := filepath.Rel(l.dir, found[0])
		return name
	}
	p.until("the first trials", func() bool { return part() != "" && l.lines(part()) >= 4 })
	ballast := filepath.Join(disk, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	p.until("a word of the full disk", func() bool {
		return strings.Contains(p.err.String(), "no space left on device")
	})
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	// A machine that is slow may have seen it full for so long that the controller gave up: that loses nothing.
	o := p.end()
	for range 3 {
		if o.code == 0 {
			break
		}
		o = l.do(args...)
	}
	if o.code != 0 || !strings.Contains(o.out, "counted: 1 host") || strings.Contains(o.out, "refused") {
		t.Errorf("exit code %d:\n%s%s\nbefore:\n%s", o.code, o.err, o.out, p.err.String())
	}
	if left, err := os.ReadDir(there); err != nil || len(left) > 0 {
		t.Errorf("left on the host: %v %v", left, err)
	}
}

// TestFleetHostReboots has a host lose its power in mid-run, with all that runs there, and come back as another boot.
// The part goes on where it was, by the controller that has watched all the time, and another host is not kept waiting.
func TestFleetHostReboots(t *testing.T) {
	l := newLab(t)
	s := l.sshd()
	need(t, "unshare", "mount")
	there := l.folder("there")
	h := s.host("node")
	const aBoot = `mount --bind "$2" /proc/sys/kernel/random/boot_id`
	boot := func(id string) {
		t.Helper()
		h.boot(aBoot, l.file("boot-"+id, "00000000-0000-4000-8000-00000000000"+id+"\n"))
	}
	boot("1")
	l.file("plan.yaml", fleetPlan(20))
	l.inventory(map[string]int{"node": h.port, "other": s.port})
	args := s.fleet("plan.yaml", "nodes", there)
	p := l.start(args...)
	var dir string
	p.until("the first trials of the node", func() bool {
		found, _ := filepath.Glob(filepath.Join(there, ".tare-fleet-*", "part"))
		for _, f := range found {
			b, err := bundle.Open(f)
			name, _ := filepath.Rel(l.dir, f)
			if err == nil && b.Manifest.Shard != nil && b.Manifest.Shard.Host == "node" && l.lines(name) >= 8 {
				dir = name
			}
		}
		return dir != ""
	})
	id, before := l.runID(dir), l.lines(dir)
	h.daemon.Kill()
	l.await("the end of all that ran there", func() bool {
		for _, task := range tasks() {
			if strings.Contains(task.line, id) || strings.HasPrefix(task.line, "./tare fleet shard") &&
				strings.Contains(task.line, "--host node") {
				return false
			}
		}
		return true
	})
	p.until("a word of the host that is down", func() bool {
		return strings.Contains(p.err.String(), "the host does not answer")
	})
	boot("2")
	o := p.end()
	if o.code != 0 || !strings.Contains(o.out, "counted: all 2 hosts") || strings.Contains(o.out, "refused") {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	packed, err := filepath.Glob(filepath.Join(l.dir, "nodes", "hosts", "node-*.tare"))
	if err != nil || len(packed) != 1 {
		t.Fatalf("of the node there are %v, %v", packed, err)
	}
	unpacked := filepath.Join(l.dir, "unpacked")
	if err := bundle.Unpack(packed[0], unpacked); err != nil {
		t.Fatal(err)
	}
	if got := l.runID("unpacked"); got != id || l.lines("unpacked") <= before {
		t.Errorf("it is run %s with %d trials; the run before the power cut was %s with %d", got, l.lines("unpacked"),
			id, before)
	}
	l.settled(id, true)
	if left, err := os.ReadDir(there); err != nil || len(left) > 0 {
		t.Errorf("left on the hosts: %v %v", left, err)
	}
}

// TestFleetsMeetOnOneHost has two controllers of two fleets ask one host. The second says what it waits for, and both
// fleets come to their end.
func TestFleetsMeetOnOneHost(t *testing.T) {
	l := newLab(t)
	s := l.sshd()
	there := l.folder("there")
	l.inventory(map[string]int{"n1": s.port})
	l.file("plan.yaml", fleetPlan(12))
	l.file("other.yaml", strings.Replace(fleetPlan(12), "name: nodes", "name: others", 1))
	first := l.start(s.fleet("plan.yaml", "first", there)...)
	second := l.start(s.fleet("other.yaml", "second", there)...)
	const meets = ": another part of a fleet works on this machine"
	first.until("one that waits for the other", func() bool {
		return strings.Contains(first.err.String()+second.err.String(), meets)
	})
	for _, p := range []*process{first, second} {
		if o := p.end(); o.code != 0 || !strings.Contains(o.out, "counted: 1 host") {
			t.Errorf("exit code %d:\n%s%s", o.code, o.err, o.out)
		}
	}
	if left, err := os.ReadDir(there); err != nil || len(left) > 0 {
		t.Errorf("left on the host: %v %v", left, err)
	}
}

// TestWaitingPartNamesTheHolder has one part wait for another by hand: it says which, and of which process.
func TestWaitingPartNamesTheHolder(t *testing.T) {
	l := newLab(t)
	l.file("plan.yaml", fleetPlan(200))
	lock := filepath.Join(l.dir, "lock")
	first := l.start("fleet", "shard", "1/2", "plan.yaml", "-q", "--lock", lock, "-o", "one")
	first.trials("one", 1)
	second := l.start("fleet", "shard", "2/2", "plan.yaml", "-q", "--lock", lock, "-o", "two")
	second.until("its wait", func() bool { return strings.Contains(second.err.String(), "\n") })
	if want := fmt.Sprintf("waiting    another part of a fleet works on this machine: part 1 of 2, process %d of user ",
		first.cmd.Process.Pid); !strings.Contains(second.err.String(), want) {
		t.Errorf("no %q in:\n%s", want, second.err.String())
	}
	l.kill(first.cmd.Process.Pid, syscall.SIGKILL)
	second.until("its turn", func() bool { return strings.Contains(second.err.String(), "begins     part 2 of 2\n") })
	// What a process wrote that was killed is nobody's any more.
	second.trials("two", 1)
	third := l.start("fleet", "shard", "1/2", "plan.yaml", "-q", "--lock", lock, "-o", "three")
	third.until("its wait", func() bool { return strings.Contains(third.err.String(), "\n") })
	if want := fmt.Sprintf("part 2 of 2, process %d of user ", second.cmd.Process.Pid); !strings.Contains(
		third.err.String(), want) {
		t.Errorf("no %q in:\n%s", want, third.err.String())
	}
	for _, p := range []*process{third, second} {
		l.kill(p.cmd.Process.Pid, syscall.SIGINT)
		if o := p.end(); o.code != 1 {
			t.Errorf("stopped: exit code %d:\n%s", o.code, o.err)
		}
	}
	if o := l.do("clean"); o.code != 0 {
		t.Errorf("clean: exit code %d:\n%s", o.code, o.err)
	}
	l.settled(l.runID("one"), true)
}
