// Package hyperfine reads what hyperfine --export-json writes, and says what the figures are and what cannot be told
// from them.
package hyperfine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"tare/internal/stats"
)

// Bounds of an export.
const (
	MaxFile    = 64 << 20 // bytes
	MaxResults = 1000
	maxText    = 4096 // bytes of a command
)

// Result is one command of an export. Times are in seconds, and NaN where the file does not have them.
type Result struct {
	Command            string
	Mean, Spread       float64 // Spread is the standard deviation, 0 for a single run
	Median, Min, Max   float64
	User, System       float64 // CPU times
	Memory             float64 // largest resident memory of any run, bytes
	Runs               int     // 0: the file has no single times
	Early, Late        float64 // medians of the first and the second half of the runs; 0 below 8 runs
	Failed             int     // runs with another exit code than 0
	Ratio, RatioSpread float64 // of the means, to the first command; 0 for the first, and where a mean is 0
	Parameters         string  // NAME=VALUE, ..., as -P and -L gave them
}

// export is the form of the file.
type export struct {
	Results []struct {
		Command string         `json:"command"`
		Mean    *float64       `json:"mean"`
		Stddev  *float64       `json:"stddev"`
		Median  *float64       `json:"median"`
		User    *float64       `json:"user"`
		System  *float64       `json:"system"`
		Min     *float64       `json:"min"`
		Max     *float64       `json:"max"`
		Times   []float64      `json:"times"`
		Memory  []float64      `json:"memory_usage_byte"`
		Codes   []*float64     `json:"exit_codes"`
		Params  map[string]any `json:"parameters"`
	} `json:"results"`
}

// Read reads an export of at most MaxFile bytes. The error says what of it is no export of hyperfine's.
func Read(r io.Reader) ([]Result, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxFile {
		return nil, fmt.Errorf("it is longer than %d MiB, the most that is read", MaxFile>>20)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	var e export
	if err := json.Unmarshal(text, &e); err != nil {
		if s, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("it is no JSON: byte %d: %w", s.Offset, err)
		}
		return nil, fmt.Errorf("it is no export of hyperfine's: %w", err)
	}
	switch {
	case len(e.Results) == 0:
		return nil, errors.New("it has no results: make it with hyperfine --export-json FILE")
	case len(e.Results) > MaxResults:
		return nil, fmt.Errorf("it has %d results; at most %d are read", len(e.Results), MaxResults)
	}
	out := make([]Result, len(e.Results))
	for i := range e.Results {
		x, y := &e.Results[i], &out[i]
		*y = Result{Command: x.Command[:min(len(x.Command), maxText)], Mean: value(x.Mean),
			Median: value(x.Median), Min: value(x.Min), Max: value(x.Max), User: value(x.User),
			System: value(x.System), Runs: len(x.Times)}
		if x.Stddev != nil {
			y.Spread = max(0, *x.Stddev)
		}
		for _, m := range x.Memory {
			y.Memory = max(y.Memory, m)
		}
		for _, c := range x.Codes {
			if c == nil || *c != 0 {
				y.Failed++
			}
		}
		for _, t := range x.Times {
			if !(t >= 0) || math.IsInf(t, 0) {
				return nil, fmt.Errorf("results[%d]: %v is no time in seconds", i, t)
			}
		}
		if y.Runs > 0 {
			y.Median = stats.Median(slices.Clone(x.Times))
		}
		if half := y.Runs / 2; half >= 4 {
			y.Early = stats.Median(slices.Clone(x.Times[:half]))
			y.Late = stats.Median(slices.Clone(x.Times[y.Runs-half:]))
		}
		if x.Mean == nil || !(*x.Mean >= 0) || math.IsInf(y.Mean, 0) {
			return nil, fmt.Errorf("results[%d] has no mean; make the file with hyperfine --export-json", i)
		}
		for _, name := range slices.Sorted(maps.Keys(x.Params)) {
			y.Parameters += fmt.Sprintf(", %.60s=%.60v", name, x.Params[name])
		}
		y.Parameters = strings.TrimPrefix(y.Parameters, ", ")
		if first := &out[0]; i > 0 && first.Mean > 0 && y.Mean > 0 {
			y.Ratio = y.Mean / first.Mean
			y.RatioSpread = y.Ratio * math.Hypot(y.Spread/y.Mean, first.Spread/first.Mean)
		}
	}
	return out, nil
}

// value is NaN where an export has none.
func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return max(0, *v)
}

// wandered is the least difference of the halves of a command's runs that is told, as a share.
const wandered = 0.02

// Untold are sentences about what cannot be told from an export, and what in it speaks against its figures.
func Untold(all []Result) []string {
	out := []string{
		"The commands ran one after the other. Whatever changed on the machine from one to the next is in the ratio.",
		"No command was run against itself (no null control), so it is not known how far apart the same command " +
			"would have been. The ± is the spread of single runs and says nothing of that.",
		"Neither the machine nor the versions are in the file.",
	}
	short := false
	for i := range all {
		r := &all[i]
		short = short || r.Mean == 0
		if d := r.Late/r.Early - 1; r.Early > 0 && math.Abs(d) >= wandered {
			out = append(out, fmt.Sprintf("Within the runs of %q the median moved by %+.1f %% from the first half to "+
				"the second.", r.Command, 100*d))
		}
		if r.Failed > 0 {
			out = append(out, fmt.Sprintf("%d of the %d runs of %q failed.", r.Failed, max(r.Runs, r.Failed),
				r.Command))
		}
	}
	if short {
		out = append(out,
			"A mean of 0 is none: hyperfine takes the start of the shell off, and what is left of such a "+
				"short command is less than that varies. hyperfine -N, without a shell, can tell it, and so can "+
				"tare ab.")
	}
	return out
}

// ShellSigns tells whether a command line means something else without a shell. hyperfine has each run by one, unless
// -N said otherwise, which an export does not tell.
func ShellSigns(command string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	return strings.ContainsAny(command, "|&;<>()$`*?[]{}~#!\n") ||
		strings.Contains(" : . cd eval exec export if for while set source trap type ulimit umask unset wait ",
			" "+first+" ")
}
