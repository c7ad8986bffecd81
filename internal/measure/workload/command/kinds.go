// Package command measures the user's own command: its time from just before it is started to the moment it is reaped,
// the resources it used, and the figures that it prints itself.
//
// It is opinionated about what the clock sees. The timed section of a run only starts the command and waits for it:
// preparation, output and checks are outside. Output is discarded unless figures are read from it, because a terminal
// or a pipe changes the behaviour of many programs. A run that does not end with the expected exit code is a failure
// and never a figure.
package command

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// maxRuns bounds the runs of one trial.
const maxRuns = 100_000

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	return []workload.Kind{{
		Name: "command", Family: workload.FamilyCommand, WorkUnit: "run", MaxWork: maxRuns,
		Is:    workload.Traits{Command: true, Parallel: true, Awaited: workload.AwaitedRun},
		Needs: workload.Needs{FS: true, CPUBound: true},
		Doc: "Runs your own command line, as hyperfine does. One unit of work is one run, whose " +
			"process group is killed afterwards. With prepare or conclude a trial is one run; with preset or " +
			"metric the first figure that the command prints decides.",
		Params: []workload.Param{
			{Name: "command", Type: workload.Text, Required: true, Doc: "the command line"},
			{Name: "setup", Type: workload.Text, Sparse: true, Doc: "command line that must succeed " +
				"once in each environment before the first run, not timed"},
			{Name: "prepare", Type: workload.Text, Doc: "command line before each run, not timed"},
			{Name: "conclude", Type: workload.Text, Doc: "command line after each run, not timed"},
			{Name: "cleanup", Type: workload.Text,
				Doc: "command line at the end of each trial, even a failed one"},
			{Name: "shell", Type: workload.Text, Default: shellDefault,
				Doc: "default: sh (cmd on Windows); none: no shell, split at spaces, quotes and " +
					"backslashes (hyperfine -N); else a shell with its options, to which -c is added"},
			{Name: "dir", Type: workload.Text, Doc: "working directory; empty: the work's own, empty " +
				"before the first trial and kept until the last"},
			{Name: "input", Type: workload.Text, Doc: "file for standard input; empty: no input"},
			{Name: "exit", Type: workload.Int, Default: "0", Min: -1, Max: 255, Doc: "exit code of a " +
				"successful run; -1: any"},
			{Name: "timeout", Type: workload.Duration, Default: "10m",
				Doc: "a run that takes longer is stopped with its process group and fails"},
			{Name: "fsync", Type: workload.Bool, Default: "no",
				Doc: "yes: the figures depend on flushes, as a database's commits do, and are not " +
					"compared where a flush means different things"},
			{Name: "preset", Type: workload.Choice, Default: presetNone, Choices: presetNames(),
				Doc: "program whose output has the figures: none, fio (--output-format=json), iperf3 " +
					"(-J), sysbench, wrk, pgbench"},
			{Name: "metric", Type: workload.Text, Doc: "figures on standard output, one per line: " +
				"NAME:UNIT:lower|higher:json:/pointer or NAME:UNIT:lower|higher:re:REGEX, whose first group is the " +
				"figure, and (?P<unit>...) its unit of time (ns, µs, ms, s), which makes it seconds; or " +
				"FORMAT:\"CASE\" \"FIGURE\" of tare plan metrics"},
			{Name: "env", Type: workload.Text, Sparse: true, Doc: "variables for all these commands: " +
				"NAME=VALUE, one per line"},
			{Name: "tree", Type: workload.Text, Sparse: true, Doc: "folder on this machine, copied " +
				"into the environment before the first run, with its links, without .git; the command runs there, " +
				"in dir below it"},
			{Name: "check", Type: workload.Choice, Sparse: true, Choices: []string{"output"},
				Doc: "output: what the command prints to standard output must be the same in every " +
					"run and target"},
		},
		Metrics:    ownMetrics(true),
		Dynamic:    metricsFor,
		MaxWorkFor: maxWorkFor,
		UnitTime:   unitTime,
		Lasts: func(p workload.Params) workload.Lasting {
			if !p.Bool("fsync") {
				return workload.Lasting{Flush: workload.FlushByUser}
			}
			return workload.Lasting{Flush: workload.FlushEach, Metrics: workload.AllMetrics}
		},
		New: func(p workload.Params) (workload.Trial, error) { return newTrial(p) },
	}}
}

// ownMetrics are the figures of every run.
func ownMetrics(primary bool) []unit.Metric {
	return []unit.Metric{
		{Name: "seconds", Unit: "s", Better: unit.Lower, Timed: true, Primary: primary,
			Doc: "mean time of a run, minus the shell's start"},
		{Name: "user_seconds", Unit: "s", Better: unit.Lower,
			Doc: "mean CPU time of a run and its children in user mode"},
		{Name: "system_seconds", Unit: "s", Better: unit.Lower,
			Doc: "mean CPU time of a run and its children in the kernel"},
		{Name: "max_rss_bytes", Unit: "B", Better: unit.Lower,
			Doc: "largest resident memory of any run, on Linux at least the agent's own"},
		{Name: "page_faults", Unit: "faults", Better: unit.Lower, Sparse: true,
			Doc: "mean number of page faults of a run and its children; not on Windows"},
	}
}

// metricsFor lists the figures for these parameters: those taken from the output first.
func metricsFor(p workload.Params) []unit.Metric {
	ex, err := newExtractor(p["preset"], p["metric"])
	if err != nil || ex == nil { // New reports the error
		return ownMetrics(true)
	}
	ms := slices.Clone(ex.metrics())
	for i := range ms {
		ms[i].Primary = i == 0
	}
	return append(ms, ownMetrics(false)...)
}

// unitTime is the time-out of a run plus those of the commands run around it.
func unitTime(p workload.Params) time.Duration {
	each := p.Duration("timeout")
	all := each
	for _, name := range []string{"setup", "prepare", "conclude", "cleanup"} {
		if p[name] != "" {
			all += each
		}
	}
	return all
}

// maxWorkFor limits a trial with prepare or conclude to one run: Measure is then only that run, and both clocks measure
// the same.
func maxWorkFor(p workload.Params) int64 {
	if p["prepare"] != "" || p["conclude"] != "" {
		return 1
	}
	return maxRuns
}

func newTrial(p workload.Params) (*trial, error) {
	ex, err := newExtractor(p["preset"], p["metric"])
	if err != nil {
		return nil, err
	}
	t := &trial{params: p, extractor: ex, exit: int(p.Int("exit")), timeout: p.Duration("timeout")}
	if t.timeout <= 0 {
		return nil, fmt.Errorf("command: timeout=%s: give a time above 0", p["timeout"])
	}
	for _, name := range []string{"command", "setup", "prepare", "conclude", "cleanup"} {
		if p[name] == "" {
			continue
		}
		if _, err := commandLine(p["shell"], p[name]); err != nil {
			return nil, fmt.Errorf("command: %s: %w", name, err)
		}
	}
	for _, line := range strings.Split(p["env"], "\n") {
		if line != "" && (strings.IndexByte(line, '=') < 1 || strings.IndexByte(line, 0) >= 0) {
			return nil, fmt.Errorf("command: env: %q is not NAME=VALUE", line)
		}
	}
	return t, nil
}
