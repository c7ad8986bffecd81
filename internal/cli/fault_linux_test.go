package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/bundle"
	"tare/internal/record"
)

// plan writes a plan of short trials with a healthy baseline "host" and a healthy candidate "good".
func (l *lab) plan(environments, workloads string) {
	l.Helper()
	l.file("plan.yaml", `baseline: host
seed: 7
trial: 20ms
blocks: 10
environments:
  host: local
  good: local
`+indent(environments)+"workloads:\n"+indent(workloads))
}

func indent(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		b.WriteString("  " + strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// spared holds what must be true of every run in which one target was struck: the run is done, the healthy candidate
// has its verdicts, the report tells of the fault, and nothing is left behind.
func (l *lab) spared(o outcome, target string, words ...string) {
	l.Helper()
	if o.code != 0 {
		l.Errorf("exit code %d", o.code)
	}
	for _, w := range append(words, target) {
		if !strings.Contains(o.err, w) {
			l.Errorf("nothing of %q was said:\n%s", w, o.err)
		}
		if !strings.Contains(unwrapped(o.out), w) {
			l.Errorf("the report does not tell of %q:\n%s", w, o.out)
		}
	}
	d := l.read("out")
	l.decided(d, "good")
	if !d.Run.Finished {
		l.Error("the report says that the run has not ended")
	}
	l.gone("out")
	if l.Failed() {
		l.Logf("tare said:\n%s%s", o.err, o.out)
	}
}

// unwrapped undoes the line breaks of a report.
func unwrapped(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestFullWorkDirectory(t *testing.T) {
	l := newLab(t)
	disk := l.mount("tmpfs", "size=8m")
	l.plan("bad: local?dir="+disk, "- fs.seqwrite: {size: 16MiB}\n- cpu.prime")
	o := l.do("run", "plan.yaml", "-o", "out")
	l.spared(o, "bad", "fs.seqwrite needs 17 MiB", "7 MiB are free; free some space")
	d := l.read("out")
	for _, c := range d.Cells {
		if c.Target != "bad" || !c.Primary {
			continue
		}
		if failed := c.Verdict == record.Failed; failed != (c.Workload != "cpu.prime") {
			t.Errorf("%s is %s", c.Workload, c.Verdict)
		}
	}
}

// The disk fills up in the middle of a run, which begins well.
func TestWorkDirectoryFillsUp(t *testing.T) {
	l := newLab(t)
	disk := l.mount("tmpfs", "size=8m")
	l.plan("bad: local?dir="+disk, "- fs.seqwrite: {size: 4MiB}")
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 12)
	for n := 4 << 20; n > 4096; n /= 2 { // all that is left, between two trials or in one
		os.WriteFile(filepath.Join(disk, fmt.Sprintf("ballast%d", n)), make([]byte, n), 0o600)
	}
	l.spared(p.end(), "bad", "fs.seqwrite", "space")
	l.undecided(l.read("out"), "bad")
}

func TestReadOnlyWorkDirectory(t *testing.T) {
	l := newLab(t)
	disk := l.mount("tmpfs", "size=8m,ro")
	l.plan("bad: local?dir="+disk, "- fs.seqwrite: {size: 1MiB}\n- cpu.prime")
	l.spared(l.do("run", "plan.yaml", "-o", "out"), "bad", "read-only file system", "dir=PATH")
	l.undecided(l.read("out"), "bad")
}

// The disk becomes read-only in the middle of a run, as a file system does after an error.
func TestWorkDirectoryTurnsReadOnly(t *testing.T) {
	l := newLab(t)
	disk := l.mount("tmpfs", "size=8m")
	l.plan("bad: local?dir="+disk, "- fs.seqwrite: {size: 1MiB}")
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 12)
	p.until("moment without an open file", func() bool {
		return unix.Mount("tare-test", disk, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, "") == nil
	})
	o := p.end()
	if err := unix.Mount("tare-test", disk, "tmpfs", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	if o.code != 0 || !strings.Contains(o.err, "read-only file system") {
		t.Errorf("exit code %d:\n%s", o.code, o.err)
	}
	d := l.read("out")
	l.decided(d, "good")
	l.undecided(d, "bad")
	// What could not be removed is found, once it can be.
	if o := l.do("clean"); o.code != 0 {
		t.Errorf("clean: %d %s", o.code, o.err)
	}
	if left, _ := filepath.Glob(disk + "/*"); len(left) > 0 && !strings.Contains(o.err, left[0]) {
		t.Errorf("nobody was told of %v:\n%s", left, o.err)
	}
}

func TestRefusedDirectIO(t *testing.T) {
	l := newLab(t)
	l.plan("bad: local?dir="+l.mount("ramfs", ""),
		"- fs.randread: {size: 1MiB, direct: yes}\n- fs.smallfiles: {files: 20}")
	// The healthy ones need a file system that takes it.
	disk := l.ext4()
	plan, err := os.ReadFile(filepath.Join(l.dir, "plan.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	l.file("plan.yaml", strings.ReplaceAll(string(plan), ": local\n", ": local?dir="+disk+"\n"))
	l.spared(l.do("run", "plan.yaml", "-o", "out"), "bad", "fs.randread", "refuses direct I/O", "direct=no")
	for _, c := range l.read("out").Cells {
		refused := c.Verdict == record.Withheld && c.Blocks == 0
		if c.Target == "bad" && c.Primary && refused != strings.HasPrefix(c.Workload, "fs.randread") {
			t.Errorf("%s is %s with %d blocks", c.Workload, c.Verdict, c.Blocks)
		}
	}
}

// ext4 makes a real disk of its own.
func (l *lab) ext4() string {
	l.Helper()
	needRoot(l)
	need(l, "mke2fs", "mount")
	image := filepath.Join(l.dir, "disk.img")
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", image, "64M").CombinedOutput(); err != nil {
		l.Fatalf("mke2fs: %v %s", err, out)
	}
	dir := filepath.Join(l.dir, "ext4")
	if err := os.Mkdir(dir, 0o755); err != nil {
		l.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		l.Fatalf("mount: %v %s", err, out)
	}
	l.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			l.Errorf("something still uses %s: %v", dir, err)
			unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	return dir
}

// An unprivileged user's tare with a work directory it may not write to, and a container it may not make.
func TestNoPermission(t *testing.T) {
	l := newLab(t)
	needRoot(t)
	need(t, "setpriv")
	forbidden := filepath.Join(l.dir, "forbidden")
	if err := os.Mkdir(forbidden, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{l.dir, l.tmp} {
		if err := os.Chown(d, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	l.plan("bad: local?dir="+forbidden+"\nbox: namespace?user=host\nnice: local?nice=-5", "- fs.seqwrite: {size: 1MiB}")
	l.command = []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", tareBinary}
	l.env = append(l.env, "HOME="+l.dir) // root's own is closed to others
	// `tare clean` asks every engine that is here, and a user's podman keeps a process from the first question on.
	if podman, err := exec.LookPath("podman"); err == nil {
		t.Cleanup(func() {
			cmd := exec.Command(l.command[0], append(slices.Clone(l.command[1:len(l.command)-1]), podman, "system",
				"migrate")...)
			cmd.Dir, cmd.Env = l.dir, l.env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Logf("podman system migrate: %v %s", err, out)
			}
		})
	}
	o := l.do("run", "plan.yaml", "-o", "out")
	l.spared(o, "bad", "permission denied", "dir=PATH")
	d := l.read("out")
	for target, words := range map[string][]string{"box": {"user=own"}, "nice": {"needs privileges"},
		"bad": {forbidden}} {
		l.undecided(d, target)
		for _, w := range words {
			if !strings.Contains(o.err, w) {
				t.Errorf("nothing of %s, %q was said:\n%s", target, w, o.err)
			}
		}
	}
}

// The disk under the bundle is full: the run ends, with what there is, and goes on when there is room again.
func TestFullBundleDisk(t *testing.T) {
	l := newLab(t)
	disk := l.mount("tmpfs", "size=256k")
	out := filepath.Join(disk, "out")
	if err := os.Symlink(disk, filepath.Join(l.dir, "disk")); err != nil {
		t.Fatal(err)
	}
	l.plan("box: local", `- "null"`)
	p := l.start("run", "plan.yaml", "-o", "disk/out")
	p.trials("disk/out", 12)
	ballast := filepath.Join(disk, "ballast")
	os.WriteFile(ballast, make([]byte, 256<<10), 0o600) // as much as there is room for
	o := p.end()
	if o.code != 1 || !strings.Contains(o.err, "the disk is full") || !strings.Contains(o.err, "--resume") {
		t.Errorf("exit code %d:\n%s", o.code, o.err)
	}
	if !strings.Contains(o.out, "has not ended") {
		t.Errorf("there is no report of what there is:\n%s", o.out)
	}
	l.gone("disk/out")
	before := l.lines("disk/out")
	if o := l.do("report", "disk/out"); o.code != 0 {
		t.Errorf("report: %d %s", o.code, o.err)
	}
	if o := l.do("run", "--resume", "disk/out"); o.code != 1 || !strings.Contains(o.err, "full") {
		t.Errorf("resume on a full disk: exit code %d:\n%s", o.code, o.err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tare-test", disk, "tmpfs", unix.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	if o := l.do("run", "--resume", "disk/out"); o.code != 0 ||
		!strings.Contains(o.err, fmt.Sprintf("resuming after %d trials", before)) {
		t.Errorf("resume: exit code %d:\n%s", o.code, o.err)
	}
	l.decided(l.read("disk/out"), "good")
	if entries, err := os.ReadDir(filepath.Join(out, bundle.EvidenceDir)); err != nil || len(entries) > 0 {
		t.Errorf("evidence %v, %v", entries, err)
	}
}

// A bundle that cannot even be begun starts nothing.
func TestUnwritableBundle(t *testing.T) {
	l := newLab(t)
	l.plan("", `- "null"`)
	for name, disk := range map[string]string{"read-only": l.mount("tmpfs", "size=1m,ro"),
		"full": l.mount("tmpfs", "size=4k,nr_inodes=2")} {
		o := l.do("run", "plan.yaml", "-o", filepath.Join(disk, "deep", "out"))
		if o.code != 2 || !strings.Contains(o.err, "create bundle") || strings.Contains(o.err, "is open after") ||
			strings.Contains(o.err, "written before") {
			t.Errorf("%s: exit code %d:\n%s", name, o.code, o.err)
		}
		if left, _ := os.ReadDir(l.tmp); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

// The baseline cannot be measured: nothing can be compared, and that is a failure of the run.
func TestLostBaseline(t *testing.T) {
	l := newLab(t)
	l.plan("", "- \"null\": {hang: 100ms}")
	p := l.start("run", "plan.yaml", "-o", "out")
	p.trials("out", 6)
	worker := p.find("host", aWorker)
	l.kill(p.find("host", anAgent), syscall.SIGKILL)
	o := p.end()
	if o.code != 1 || !strings.Contains(o.err, "the baseline could not be measured") {
		t.Errorf("exit code %d, worker %d:\n%s", o.code, worker, o.err)
	}
	l.evidence("out", "host", "killed")
	for _, c := range l.read("out").Cells {
		if c.Verdict == record.Different || c.Verdict == record.Equivalent || c.Verdict == record.Measured {
			t.Errorf("%+v", c)
		}
	}
	l.gone("out")
}
