package dispatch

import (
	"slices"
	"strings"
	"testing"
)

func TestParseSbatch(t *testing.T) {
	got, err := ParseSbatch([]byte("#!/bin/bash\n#SBATCH --partition=main   # the large one\n\n# a remark\n" +
		"#SBATCH -A 'my account' --constraint=\"a&b\"\n##SBATCH --mem=1\n#SBATCHES --mem=2\nmodule load x\n" +
		"#SBATCH --time=5\n"))
	want := []string{"--partition=main", "-A", "my account", "--constraint=a&b"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
	for src, part := range map[string]string{
		"echo\n":                                   "no #SBATCH lines",
		"#SBATCH --comment='x\n":                   "line 1",
		"#SBATCH -N1\n#SBATCH hetjob\n":            "line 2: a job of several kinds",
		strings.Repeat("#SBATCH -N1\n", MaxScript): "longer than",
	} {
		if _, err := ParseSbatch([]byte(src)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.40q: %v, want %q", src, err, part)
		}
	}
	for _, arg := range []string{"--array=1-3", "-a", "--wrap=true"} {
		if err := CheckSbatch([]string{"--time=1", arg}); err == nil {
			t.Errorf("%s passes", arg)
		}
	}
	if err := CheckSbatch(want); err != nil {
		t.Error(err)
	}
	for args, has := range map[string]bool{"--time=5": true, "--time 5": true, "-t5": true, "-t 5": true,
		"--time-min=5": false, "--tmp=5": false, "": false} {
		if got := HasTimeLimit(strings.Fields(args)); got != has {
			t.Errorf("%q has a time limit: %v", args, got)
		}
	}
}

func FuzzParseSbatch(f *testing.F) {
	f.Add([]byte("#!/bin/sh\n#SBATCH --time=5 # remark\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		args, err := ParseSbatch(src)
		if err == nil && (len(args) == 0 || len(args) > len(src)) {
			t.Errorf("%d arguments of %d bytes", len(args), len(src))
		}
	})
}

func TestParseAccounts(t *testing.T) {
	got := parseAccounts([]byte("12|COMPLETED\n13|CANCELLED by 1000\n14|TIMEOUT\nnoise\n15|\n16|RUNNING\n" +
		"17|OUT_OF_ME+\n"))
	if len(got) != 5 {
		t.Fatalf("%v", got)
	}
	for id, want := range map[string]Seen{"12": {Phase: Ended, Detail: "COMPLETED"},
		"13": {Phase: Ended, Detail: "its job was cancelled", Final: true}, "14": {Phase: Ended, Detail: "TIMEOUT"},
		"16": {Phase: Working}} {
		j := got[id]
		s := j.seen("")
		want.Job = id
		if s != want {
			t.Errorf("job %s: %+v, want %+v", id, s, want)
		}
	}
}

func FuzzParseAccounts(f *testing.F) {
	f.Add([]byte("12|COMPLETED\n13|CANCELLED by 1000\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		for id, j := range parseAccounts(out) {
			if s := j.seen(""); id == "" || s.Phase == "" {
				t.Errorf("%q: %+v", id, s)
			}
		}
	})
}
