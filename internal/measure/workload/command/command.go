package command

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/sql/datadir"
)

// trial is one trial of the command workload.
type trial struct {
	params    workload.Params
	extractor extractor // nil: no figures are taken from the output
	exit      int
	timeout   time.Duration

	base    runner
	command *runner
	shell   time.Duration // median start of the shell alone; 0 without a shell

	ran       int64
	wall      time.Duration // sum
	user, sys time.Duration // sums
	faults    int64         // sum
	rss       int64         // maximum, bytes
	last      int           // exit code of the last run
	printed   string        // what stands for the output of every run; "" if it is not checked
	samples   []float64     // seconds of each stride-th run
	figures   map[string][]float64
	warned    map[string]bool
	owed      bool // a run was done that conclude has not followed
}

// Setup finds the programs, measures the shell and prepares the first run.
func (t *trial) Setup(ctx context.Context, b *workload.Bench) error {
	dir := t.params["dir"]
	if t.params["tree"] != "" {
		tree := b.Dir + ".tree" // beside the cell's directory, for as long as the environment is open
		if err := unpack(b.Files["tree"], tree); err != nil {
			return fmt.Errorf("command: tree=%s: %w", t.params["tree"], err)
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(tree, dir)
		}
	} else if dir == "" {
		dir = b.Dir
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fmt.Errorf("command: dir=%s is not a directory in this environment (%v)", dir, err)
	}
	env := os.Environ()
	if t.params["preset"] != presetNone {
		env = setEnv(env, "LC_ALL", "C") // pgbench and others translate their output
	}
	for _, line := range strings.Split(t.params["env"], "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			env = setEnv(env, name, value)
		}
	}
	t.base = runner{dir: dir, env: env, timeout: t.timeout}
	err := t.setUp(ctx, b)
	if err != nil {
		return err
	}
	if t.command, err = newRunner("command", t.params["shell"], t.params["command"], t.base); err != nil {
		return err
	}
	t.command.input = t.params["input"]
	if t.params["shell"] != shellNone {
		if err := t.weighShell(ctx); err != nil {
			return err
		}
		b.Note("shell_ns", strconv.FormatInt(t.shell.Nanoseconds(), 10))
	}
	t.figures, t.warned = map[string][]float64{}, map[string]bool{}
	t.samples = make([]float64, 0, min(b.Work, workload.MaxSamples))
	return t.prepare(ctx)
}

// unpack makes a folder of an archive, unless an earlier trial did.
func unpack(archive, dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	half := dir + ".half"
	os.RemoveAll(half) // of a worker that was killed; what stays is in the way below
	if err := datadir.UnpackFile(archive, half, true); err != nil {
		return err
	}
	return os.Rename(half, dir)
}

// setUp runs the command line of the parameter setup, unless an earlier trial did: that is noted beside the cell's
// directory, which lives as long as the environment is open. It may make the program, so it comes before all else.
func (t *trial) setUp(ctx context.Context, b *workload.Bench) error {
	line, done := t.params["setup"], b.Dir+".setup"
	if _, err := os.Lstat(done); line == "" || err == nil {
		return nil
	}
	if err := once(ctx, "setup", t.params["shell"], line, t.base); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o600)
}

func setEnv(env []string, name, value string) []string {
	env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	return append(env, name+"="+value)
}

// Bounds of the runs that measure the shell.
const (
	shellRunsMin = 5
	shellRunsMax = 30
	shellTime    = 200 * time.Millisecond
)

// weighShell measures how long the shell takes to start and end with nothing to do. The minimum is used: it is the most
// stable estimate, and a disturbed start must not be subtracted from every run.
func (t *trial) weighShell(ctx context.Context) error {
	r, err := newRunner("shell", t.params["shell"], "", t.base)
	if err != nil {
		return err
	}
	defer r.close()
	spent := time.Duration(0)
	for n := 0; n < shellRunsMin || n < shellRunsMax && spent < shellTime; n++ {
		o, err := r.run(ctx, false)
		if err == nil {
			err = r.ended(&o, 0)
		}
		if err != nil {
			return err
		}
		if n == 0 || o.wall < t.shell {
			t.shell = o.wall
		}
		spent += o.wall
	}
	return nil
}

func (t *trial) prepare(ctx context.Context) error {
	if t.params["prepare"] == "" {
		return nil
	}
	return once(ctx, "prepare", t.params["shell"], t.params["prepare"], t.base)
}

// conclude follows a run, once.
func (t *trial) conclude(ctx context.Context) error {
	if !t.owed || t.params["conclude"] == "" {
		return nil
	}
	t.owed = false
	return once(ctx, "conclude", t.params["shell"], t.params["conclude"], t.base)
}

// Measure runs the command b.Work times. Only the runs themselves count; see Report.
func (t *trial) Measure(ctx context.Context, b *workload.Bench) error {
	stride := (b.Work + workload.MaxSamples - 1) / workload.MaxSamples
	check := t.params["check"] != ""
	for i := range b.Work {
		if i > 0 {
			if err := t.conclude(ctx); err != nil {
				return err
			}
			if err := t.prepare(ctx); err != nil {
				return err
			}
		}
		o, err := t.command.run(ctx, t.extractor != nil || check)
		t.owed = true
		if err == nil {
			err = t.command.ended(&o, t.exit)
		}
		if err != nil {
			return err
		}
		t.ran++
		t.wall, t.user, t.sys, t.rss = t.wall+o.wall, t.user+o.user, t.sys+o.system, max(t.rss, o.rss)
		t.faults, t.last = t.faults+o.faults, o.code
		if check {
			t.compare(b, &o)
		}
		if i%stride == 0 {
			t.samples = append(t.samples, o.wall.Seconds())
		}
		if t.extractor != nil {
			if err := t.take(b, &o); err != nil {
				return err
			}
		}
	}
	return nil
}

// changing stands for outputs that differ within a trial.
const changing = "not the same in every run"

// compare holds a run's output against those before it. The warm-up keeps the beginning of its first output, so that
// the first difference between two targets can be shown.
func (t *trial) compare(b *workload.Bench, o *outcome) {
	sum := sha256.Sum256(o.output)
	text := fmt.Sprintf("%d bytes, SHA-256 %x", int64(len(o.output))+o.lost, sum[:8])
	switch t.printed {
	case "":
		t.printed = text
		if b.Warmup {
			said := printable(o.output[:min(len(o.output), record.MaxShown)])
			b.Shown = []record.Shown{{Text: said[:min(len(said), record.MaxShown)]}}
		}
	case text:
	default:
		t.printed = changing
	}
}

// take takes the figures of one run from its output.
func (t *trial) take(b *workload.Bench, o *outcome) error {
	if o.lost > 0 {
		return fmt.Errorf("command: the output is longer than %d MiB, the most that is read for figures; make the "+
			"command print less", maxOutput>>20)
	}
	f, err := t.extractor.extract(o.output)
	if err != nil {
		fail := t.command.failure(fmt.Sprintf("read figures from the output: %v", err))
		fail.Evidence = strings.TrimSpace(printable(tail(o.output)) + "\n" + fail.Evidence)
		return fail
	}
	for name, v := range f.values {
		t.figures[name] = append(t.figures[name], v)
	}
	for name, v := range f.notes {
		b.Note(name, v)
	}
	for _, w := range f.warnings {
		if !t.warned[w.Code] {
			t.warned[w.Code] = true
			b.Warn(w.Code, w.Text, w.Remedy)
		}
	}
	return nil
}

// Report turns the runs into means. seconds is computed from the runs' own times, because b.Elapsed includes the time
// between runs.
func (t *trial) Report(b *workload.Bench) error {
	n := float64(b.Work)
	raw, shell := t.wall.Seconds()/n, t.shell.Seconds()*float64(t.ran)/n
	b.Note("runs", strconv.FormatInt(t.ran, 10))
	b.Check("exit", strconv.Itoa(t.exit))
	if t.printed != "" {
		b.Check("output", t.printed)
	}
	if t.exit < 0 {
		b.Note("exit_code", strconv.Itoa(t.last))
	}
	if err := t.conclude(context.Background()); err != nil {
		return err
	}
	if t.ran > 1 && (t.params["prepare"] != "" || t.params["conclude"] != "") {
		b.Note("outer_comparable", "false")
	}
	if net := raw - shell; net > 0 {
		b.Report("seconds", net)
	} else {
		return &record.Failure{Kind: "measure", Message: fmt.Sprintf(
			"a run takes %.3f ms and the shell alone %.3f ms to start: nothing is left to measure; use shell=none",
			1e3*raw, 1e3*shell)}
	}
	if shell > raw/2 {
		b.Warn("shell-dominates",
			fmt.Sprintf("the shell's start time (%.3f ms) is more than half of a run (%.3f ms), so its noise affects "+
				"the result", 1e3*shell, 1e3*raw),
			"use shell=none if the command needs no shell")
	}
	b.Sample("seconds", t.samples)
	for name, v := range map[string]float64{"user_seconds": t.user.Seconds() / n, "system_seconds": t.sys.Seconds() / n,
		"max_rss_bytes": float64(t.rss), "page_faults": float64(t.faults) / n} {
		if v > 0 { // a clock that counts ticks may show 0 for a short run
			b.Report(name, v)
		}
	}
	for name, vs := range t.figures {
		sum := 0.0
		for _, v := range vs {
			sum += v
		}
		b.Report(name, sum/float64(len(vs)))
		if len(vs) > 1 {
			b.Sample(name, vs[:min(len(vs), workload.MaxSamples)])
		}
	}
	return nil
}

// Cleanup runs the commands that still have to run.
func (t *trial) Cleanup(*workload.Bench) error {
	err := t.conclude(context.Background())
	if line := t.params["cleanup"]; line != "" && t.base.timeout > 0 {
		err = errors.Join(err, once(context.Background(), "cleanup", t.params["shell"], line, t.base))
	}
	if t.command != nil {
		t.command.close()
		t.command = nil
	}
	return err
}
