package hyperfine

import (
	"math"
	"strings"
	"testing"
)

const two = `{"results":[
 {"command":"sleep 0.1","mean":0.1,"stddev":0.001,"median":0.1,"user":0.001,"system":0.002,"min":0.09,"max":0.11,
  "times":[0.1,0.1,0.1,0.1,0.11,0.11,0.11,0.11],"exit_codes":[0,0,0,0,0,0,0,1],"memory_usage_byte":[10,30,20]},
 {"command":"sleep 0.2","mean":0.2,"stddev":null,"median":0.2,"user":0.001,"system":0.002,"min":0.2,"max":0.2,
  "times":[0.2],"exit_codes":[0],"parameters":{"t":"0.2"}}]}`

func TestRead(t *testing.T) {
	all, err := Read(strings.NewReader(two))
	if err != nil || len(all) != 2 {
		t.Fatalf("%d results, %v", len(all), err)
	}
	a, b := all[0], all[1]
	if a.Runs != 8 || a.Memory != 30 || a.Failed != 1 || a.Ratio != 0 || math.Abs(a.Median-0.105) > 1e-9 {
		t.Errorf("first: %+v", a)
	}
	if math.Abs(b.Ratio-2) > 1e-9 || math.Abs(b.RatioSpread-0.02) > 1e-9 || b.Spread != 0 {
		t.Errorf("second: %+v", b)
	}
	said := strings.Join(Untold(all), "\n")
	for _, want := range []string{"one after the other", "null control", "moved by +10.0 %", "1 of the 8 runs"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing is said of %q:\n%s", want, said)
		}
	}
}

// TestMeanOfZero: a command that is shorter than the shell's start varies is read, and has no ratio.
func TestMeanOfZero(t *testing.T) {
	const zero = `{"command":":","mean":0.0,"stddev":0.0,"times":[0.0,0.0]}`
	const some = `{"command":"x","mean":0.5,"stddev":0.1,"times":[0.5],"parameters":{"b":2,"a":"1"}}`
	for text, ratio := range map[string]float64{zero + "," + some: 0, some + "," + zero: 0, some + "," + some: 1} {
		all, err := Read(strings.NewReader("\ufeff{\"results\":[" + text + "]}"))
		if err != nil || all[1].Ratio != ratio || math.IsNaN(all[1].RatioSpread) {
			t.Errorf("%s: %+v, %v", text, all, err)
		}
		if said := strings.Join(Untold(all), " "); strings.Contains(said, "A mean of 0") != strings.Contains(text,
			zero) {
			t.Errorf("%s: %s", text, said)
		}
		for _, r := range all {
			if r.Mean > 0 && r.Parameters != "a=1, b=2" {
				t.Errorf("parameters %q", r.Parameters)
			}
		}
	}
}

func TestShellSigns(t *testing.T) {
	for command, want := range map[string]bool{"a | b": true, ": x": true, "cd x": true, "echo $HOME": true,
		"ls *.go":   true,
		"sleep 0.1": false, "cdrecord": false, "a 'b c'": false} {
		if got := ShellSigns(command); got != want {
			t.Errorf("%s: %v", command, got)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "no JSON",
		"{":                                      "no JSON: byte 1",
		"[]":                                     "no export of hyperfine's",
		"{}":                                     "has no results",
		`{"results":[{"command":"x"}]}`:          "results[0] has no mean",
		`{"results":[{"mean":1,"times":[-1]}]}`:  "results[0]: -1 is no time",
		`{"results":[{"mean":1,"times":["1"]}]}`: "no export of hyperfine's",
		`{"results":[` + strings.Repeat(`{},`, MaxResults) + `{}]}`: "at most 1000 are read",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(two)
	f.Add(`{"results":[{"command":"x","mean":1e308,"stddev":1e308,"times":[1e308,1e308]},{"mean":1e-308}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Read(strings.NewReader(text))
		if err == nil && (len(all) == 0 || len(all) > MaxResults) {
			t.Errorf("%d results without an error", len(all))
		}
		Untold(all)
	})
}
