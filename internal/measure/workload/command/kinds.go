// Package command weighs the user's own command: its time from just before it is started to the moment it is reaped,
// what it used, and, where it prints figures of its own, those figures.
//
// It is opinionated about what the clock sees. Nothing is done for a run inside its timed section but to start the
// command and to wait for it: preparation, output and checks stand outside. Output goes nowhere unless a figure is
// taken from it, because a terminal or a pipe changes what many programs do. A run that does not end with the expected
// exit code is a failure and never a figure.
package command

import (
	"fmt"
	"slices"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// maxRuns bounds the runs of one trial.
const maxRuns = 100_000

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	return []workload.Kind{{
		Name: "command", Family: "command", WorkUnit: "run", MaxWork: maxRuns,
		Needs: workload.Needs{FS: true, CPUBound: true},
		Doc: "Runs a command line of your own, as hyperfine does; one unit of work is one run. " +
			"With a shell, the least time that the shell itself takes to start, measured just before, is subtracted " +
			"from the mean and recorded; the samples keep the times as they were taken. " +
			"With prepare or conclude a trial is one run. With preset or metric, figures that the command prints " +
			"are reported too, and the first of them is the headline. " +
			"What a run leaves running in its process group is ended after it.",
		Params: []workload.Param{
			{Name: "command", Type: workload.Text, Required: true, Doc: "the command line"},
			{Name: "prepare", Type: workload.Text, Doc: "command line run before each timed run, untimed"},
			{Name: "conclude", Type: workload.Text, Doc: "command line run after each timed run, untimed"},
			{Name: "cleanup", Type: workload.Text,
				Doc: "command line run at the end of each trial, also of one that failed"},
			{Name: "shell", Type: workload.Text, Default: shellDefault,
				Doc: "default: sh (cmd on Windows); none: no shell, words are split at spaces, quotes and " +
					"backslashes work (hyperfine -N); else a shell and its options, to which -c is added"},
			{Name: "dir", Type: workload.Text, Doc: "working directory; by default a fresh one of the workload's own"},
			{Name: "input", Type: workload.Text, Doc: "file that is the standard input; by default there is none"},
			{Name: "exit", Type: workload.Int, Default: "0", Min: 0, Max: 255, Doc: "the exit code of a good run"},
			{Name: "timeout", Type: workload.Duration, Default: "10m",
				Doc: "a run that takes longer is ended with its process group and fails"},
			{Name: "fsync", Type: workload.Bool, Default: "no",
				Doc: "the command's figures depend on flushes, as a database's commits do: they are not compared " +
					"between environments where a flush means different things"},
			{Name: "preset", Type: workload.Choice, Default: presetNone, Choices: presetNames(),
				Doc: "take the figures that this program prints: fio (--output-format=json), iperf3 (-J), sysbench, " +
					"wrk, pgbench"},
			{Name: "metric", Type: workload.Text, Doc: "figures to take from standard output, one a line: " +
				"NAME:UNIT:lower|higher:json:/pointer or NAME:UNIT:lower|higher:re:REGEX, where the first group of " +
				"the first match is the figure"},
		},
		Metrics:    ownMetrics(true),
		Dynamic:    metricsFor,
		MaxWorkFor: maxWorkFor,
		UnitTime:   unitTime,
		New:        func(p workload.Params) (workload.Trial, error) { return newTrial(p) },
	}}
}

// ownMetrics are the figures of every run.
func ownMetrics(primary bool) []unit.Metric {
	return []unit.Metric{
		{Name: "seconds", Unit: "s", Better: unit.Lower, Timed: true, Primary: primary,
			Doc: "mean time of a run, less the shell's own start where a shell is used"},
		{Name: "user_seconds", Unit: "s", Better: unit.Lower,
			Doc: "mean CPU time of a run outside the kernel, with the children it waited for"},
		{Name: "system_seconds", Unit: "s", Better: unit.Lower,
			Doc: "mean CPU time of a run inside the kernel, with the children it waited for"},
		{Name: "max_rss_bytes", Unit: "B", Better: unit.Lower,
			Doc: "largest resident memory of any run; on Linux never less than the agent's own, which the kernel " +
				"counts until the program is loaded"},
	}
}

// metricsFor lists the figures for these parameters: those taken from the output first.
func metricsFor(p workload.Params) []unit.Metric {
	ex, err := newExtractor(p["preset"], p["metric"])
	if err != nil || ex == nil { // New tells the error
		return ownMetrics(true)
	}
	ms := slices.Clone(ex.metrics())
	for i := range ms {
		ms[i].Primary = i == 0
	}
	return append(ms, ownMetrics(false)...)
}

// unitTime is the time-out of a run and of what is run around it.
func unitTime(p workload.Params) time.Duration {
	each := p.Duration("timeout")
	all := each
	for _, name := range []string{"prepare", "conclude", "cleanup"} {
		if p[name] != "" {
			all += each
		}
	}
	return all
}

// maxWorkFor lets a trial that must be prepared or concluded be one run: Measure is then nothing but that run, and both
// clocks see the same.
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
	for _, name := range []string{"command", "prepare", "conclude", "cleanup"} {
		if p[name] == "" {
			continue
		}
		if _, err := commandLine(p["shell"], p[name]); err != nil {
			return nil, fmt.Errorf("command: %s: %w", name, err)
		}
	}
	return t, nil
}
