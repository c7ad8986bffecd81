package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/bundle"
	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// lab is a place where the real program runs and things go wrong: a folder of its own with a temporary directory of its
// own, of which nothing may be left in the end.
type lab struct {
	*testing.T
	dir string // what the program's working directory is
	tmp string // its TMPDIR
	env []string
	// command begins every command line; it is tare itself, or what leads to it.
	command []string
}

// newLab makes a lab. Its path is short, because sockets below it may have 107 bytes at most.
func newLab(t *testing.T) *lab {
	t.Helper()
	if testing.Short() {
		t.Skip("faults take a while")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "tare-lab-")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{T: t, dir: dir, tmp: filepath.Join(dir, "tmp"), command: []string{tareBinary}}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Mkdir(l.tmp, 0o777); err != nil {
		t.Fatal(err)
	}
	// Other users get here, too, in some tests.
	for _, d := range []string{l.dir, l.tmp} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	l.env = append(os.Environ(), "TMPDIR="+l.tmp, "XDG_CACHE_HOME="+cache,
		"PATH="+filepath.Dir(tareBinary)+":"+os.Getenv("PATH"))
	return l
}

// missing ends a test that cannot be run here: as a failure where TARE_REQUIRE is set, as in CI, and else as skipped.
func missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf("%s, and TARE_REQUIRE is set", reason)
	}
	t.Skip(reason)
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "this fault needs root")
	}
}

func need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing(t, p+" is not installed")
		}
	}
}

// file writes a file into the lab and returns its path.
func (l *lab) file(name, text string) string {
	l.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		l.Fatal(err)
	}
	return path
}

// folder makes a folder in the lab and returns its path.
func (l *lab) folder(name string) string {
	l.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.Mkdir(path, 0o755); err != nil {
		l.Fatal(err)
	}
	return path
}

// mount makes a file system of a type, to be spoilt.
func (l *lab) mount(fs, options string) string {
	l.Helper()
	needRoot(l)
	dir, err := os.MkdirTemp(l.dir, fs+"-")
	if err != nil {
		l.Fatal(err)
	}
	if err := unix.Mount("tare-test", dir, fs, 0, options); err != nil {
		l.Fatalf("mount %s: %v", fs, err)
	}
	l.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			l.Errorf("something still uses %s: %v", dir, err)
			unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	return dir
}

// outcome is how a command ended.
type outcome struct {
	code     int
	out, err string
}

// patience is how long a command may take on a busy machine.
const patience = 8 * time.Minute

// do runs tare to its end.
func (l *lab) do(args ...string) outcome {
	l.Helper()
	return l.start(args...).end()
}

// process is a tare that is running.
type process struct {
	lab      *lab
	args     []string
	cmd      *exec.Cmd
	out, err buffer
	done     chan struct{}
	result   error
}

// buffer collects output while it is looked at.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (l *lab) start(args ...string) *process {
	l.Helper()
	p := &process{lab: l, args: args, done: make(chan struct{})}
	argv := append(l.command[:len(l.command):len(l.command)], args...)
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Dir, p.cmd.Env = l.dir, l.env
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.WaitDelay = time.Minute
	if err := p.cmd.Start(); err != nil {
		l.Fatal(err)
	}
	go func() {
		p.result = p.cmd.Wait()
		close(p.done)
	}()
	l.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// end waits for the program to end.
func (p *process) end() outcome {
	p.lab.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.cmd.Process.Signal(syscall.SIGQUIT) // it says where it hangs
		<-p.done
		p.lab.Fatalf("tare %v did not end within %v:\n%s", p.args, patience, p.err.String())
	}
	if errors.Is(p.result, exec.ErrWaitDelay) {
		p.lab.Errorf("tare %v left somebody who holds its output open", p.args)
	}
	return outcome{p.cmd.ProcessState.ExitCode(), p.out.String(), p.err.String()}
}

// until waits for a condition while the program runs.
func (p *process) until(what string, ok func() bool) {
	p.lab.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		select {
		case <-p.done:
			p.lab.Fatalf("tare %v ended before %s:\n%s%s", p.args, what, p.err.String(), p.out.String())
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.lab.Fatalf("tare %v: waited %v in vain for %s:\n%s", p.args, patience, what, p.err.String())
		}
	}
}

// trials waits until the bundle holds n trials.
func (p *process) trials(name string, n int) {
	p.lab.Helper()
	p.until(fmt.Sprintf("%d trials", n), func() bool { return p.lab.lines(name) >= n })
}

func (l *lab) lines(name string) int {
	b, _ := os.ReadFile(filepath.Join(l.dir, name, bundle.TrialsFile))
	return bytes.Count(b, []byte("\n"))
}

// failures counts the trials of a target, and how many of them failed one after the other, at most.
func (l *lab) failures(name, target string) (trials, failed int) {
	l.Helper()
	row := 0
	b, _ := os.ReadFile(filepath.Join(l.dir, name, bundle.TrialsFile))
	for line := range bytes.Lines(b) {
		var t record.Trial
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		if err := json.Unmarshal(line, &t); err != nil {
			l.Fatal(err)
		}
		if t.Target != target {
			continue
		}
		trials++
		if row++; t.Error == nil {
			row = 0
		}
		failed = max(failed, row)
	}
	return trials, failed
}

// strike kills workers of a target until n of its trials in a row have failed for it. A worker that was seen may have
// ended before the signal comes: what counts is what the bundle says. The trials are counted after the signal: one may
// have ended between a count before it and the signal, and is not the one that was hit.
func (p *process) strike(name, target string, n int) {
	p.lab.Helper()
	for {
		if _, failed := p.lab.failures(name, target); failed >= n {
			return
		}
		syscall.Kill(p.find(target, aWorker), syscall.SIGKILL)
		before, failed := p.lab.failures(name, target)
		if failed >= n {
			return
		}
		p.until("the end of the trial", func() bool {
			now, _ := p.lab.failures(name, target)
			return now > before
		})
	}
}

// task is a row of /proc.
type task struct {
	pid, parent int
	line        string // arguments separated by blanks
}

func tasks() []task {
	var all []task
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		stat, err := os.ReadFile(d + "/stat")
		line, err2 := os.ReadFile(d + "/cmdline")
		if err != nil || err2 != nil {
			continue // it has just ended
		}
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if f[0] == "Z" {
			continue
		}
		t := task{line: strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))}
		t.pid, _ = strconv.Atoi(filepath.Base(d))
		t.parent, _ = strconv.Atoi(f[1])
		all = append(all, t)
	}
	return all
}

// below returns the processes that descend from one whose command line holds the word, that one included. word "" means
// the program itself.
func (p *process) below(word string) []task {
	all := tasks()
	descends := func(t task, from func(task) bool) bool {
		for range 20 {
			if from(t) {
				return true
			}
			i := slices.IndexFunc(all, func(u task) bool { return u.pid == t.parent })
			if i < 0 {
				return false
			}
			t = all[i]
		}
		return false
	}
	return slices.DeleteFunc(slices.Clone(all), func(t task) bool {
		return !descends(t, func(u task) bool { return u.pid == p.cmd.Process.Pid }) ||
			!descends(t, func(u task) bool { return strings.Contains(u.line, word) })
	})
}

// find waits for a process of the target, the last on the way down whose command line holds the word.
func (p *process) find(target, word string) int {
	p.lab.Helper()
	pid := 0
	p.until("a process "+word+" of "+target, func() bool {
		for _, t := range p.below("/" + target + "-1") {
			if strings.Contains(t.line, word) {
				pid = t.pid
			}
		}
		return pid != 0
	})
	return pid
}

// The words by which the command lines of a target's processes are told apart.
const (
	anAgent  = "agent --dir "
	aWorker  = "/proc/self/exe worker "
	aMachine = "qemu-system-"
)

func (l *lab) kill(pid int, sig syscall.Signal) {
	l.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		l.Fatalf("kill %d: %v", pid, err)
	}
}

// read returns what `tare report` says of a bundle, and holds that `tare verify` finds nothing wrong with it.
func (l *lab) read(name string) *verdict.Result {
	l.Helper()
	o := l.do("report", name, "--format", "json")
	if o.code != 0 {
		l.Fatalf("report: exit code %d: %s", o.code, o.err)
	}
	d := &verdict.Result{}
	if err := json.Unmarshal([]byte(o.out), d); err != nil {
		l.Fatal(err)
	}
	if o := l.do("verify", name); o.code != 0 || !strings.Contains(o.out,
		"all hashes and the chain of trials are correct") {
		l.Errorf("verify: exit code %d: %s%s", o.code, o.out, o.err)
	}
	return d
}

// decided holds that every cell of a target was measured as often as was asked for. A gate may forbid the verdict:
// trials that were frozen in a disturbed moment, or a clock that was read in one, are the machine's doing.
func (l *lab) decided(d *verdict.Result, target string) {
	l.Helper()
	l.verdicts(d, target, record.Different, record.Equivalent, record.Measured, record.Inconclusive, record.Withheld)
}

// undecided holds that no cell of a target got one.
func (l *lab) undecided(d *verdict.Result, target string) {
	l.Helper()
	l.verdicts(d, target, record.Failed, record.Withheld)
}

func (l *lab) verdicts(d *verdict.Result, target string, want ...record.Verdict) {
	l.Helper()
	n := 0
	for _, c := range d.Cells {
		if c.Target != target || !c.Primary {
			continue
		}
		n++
		if !slices.Contains(want, c.Verdict) {
			l.Errorf("%s in %s is %s, want one of %v: %+v", c.Workload, target, c.Verdict, want, c)
		}
		if good := slices.Contains(want, record.Inconclusive); good != (c.Blocks >= 10) {
			l.Errorf("%s in %s has %d blocks", c.Workload, target, c.Blocks)
		}
	}
	if n == 0 {
		l.Errorf("the report has no cell of %s", target)
	}
}

// evidence holds that a file of the bundle's console/ tells of the target with a word.
func (l *lab) evidence(name, target, word string) {
	l.Helper()
	files, _ := filepath.Glob(filepath.Join(l.dir, name, bundle.EvidenceDir, target+"-*"))
	var all []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			l.Fatal(err)
		}
		if strings.Contains(string(b), word) {
			return
		}
		all = append(all, filepath.Base(f)+": "+string(b))
	}
	l.Errorf("no evidence with %q of %s in %d files:\n%s", word, target, len(files), strings.Join(all, "\n"))
}

func (l *lab) runID(name string) string {
	l.Helper()
	b, err := bundle.Open(filepath.Join(l.dir, name))
	if err != nil {
		l.Fatal(err)
	}
	return b.Manifest.RunID
}

// gone holds that nothing is left of a run, once what was ended had the time to go.
func (l *lab) gone(name string) {
	l.Helper()
	id := l.runID(name)
	l.settled(id, true)
	if o := l.do("clean", "--dry-run"); o.code != 0 || strings.Contains(o.out, id) {
		l.Errorf("clean --dry-run: exit code %d: %s%s", o.code, o.out, o.err)
	}
}

// settled waits until nothing runs or is mounted that carries a word, and, with files, until nothing is in the places
// where tare makes directories.
func (l *lab) settled(word string, files bool) {
	l.Helper()
	var left []string
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		left = nil
		for _, t := range tasks() {
			if strings.Contains(t.line, word) && t.pid != os.Getpid() {
				left = append(left, fmt.Sprintf("process %d %s", t.pid, t.line))
			}
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			l.Fatal(err)
		}
		for m := range strings.Lines(string(mounts)) {
			if strings.Contains(m, word) {
				left = append(left, "mount "+m)
			}
		}
		if files {
			for _, dir := range []string{l.tmp, os.TempDir(), "/var/tmp", "/dev/shm", "/run"} {
				found, _ := filepath.Glob(filepath.Join(dir, "*"+word+"*"))
				left = append(left, found...)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			l.Errorf("left behind:\n%s", strings.Join(left, "\n"))
			return
		}
	}
}

// stopped sends a signal to a run that writes to out, and holds what has to come of it: nothing is left, and after
// Ctrl-C the run is resumed to its end. It tells whether it was.
func (l *lab) stopped(p *process, sig syscall.Signal) (resumed bool) {
	l.Helper()
	l.kill(p.cmd.Process.Pid, sig)
	o := p.end()
	if sig == syscall.SIGKILL {
		l.recovers("out")
		return false
	}
	if o.code != 1 || !strings.Contains(o.err, "continue with: tare run --resume out") {
		l.Errorf("exit code %d:\n%s", o.code, o.err)
	}
	l.gone("out")
	if o := l.do("run", "--resume", "out"); o.code != 0 {
		l.Errorf("resume: exit code %d:\n%s", o.code, o.err)
	}
	l.gone("out")
	return true
}

// daemon starts a program that ends with the test, in the lab's environment. What it said is shown if the test fails.
func (l *lab) daemon(name, dir string, argv ...string) *proc.Stream {
	l.Helper()
	cmd := proc.Command(context.Background(), argv...)
	cmd.Env, cmd.Dir = l.env, dir
	d, err := proc.Start(cmd)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		d.Close()
		if said := d.Stderr(); l.Failed() && len(said) > 0 {
			l.Logf("%s said at the end:\n%s", name, said[max(0, len(said)-2000):])
		}
	})
	return d
}

// ask runs a program and returns what it printed, also if it failed: at first nobody answers.
func (l *lab) ask(argv ...string) string {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = l.env
	out, _ := cmd.CombinedOutput()
	return strings.TrimSpace(string(out))
}

// await waits until something is so.
func (l *lab) await(what string, ok func() bool) {
	l.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}
