package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const work = "workloads: [cpu.prime]\n"

const jobs = `slurm:
  partition: batch,long
  account: 0815
  qos: normal
  constraint: icelake&nvme
  reservation: repair
  time: 90s
  memory: 8GiB
  sbatch:
    - --mail-type=END -L 'a license'
    - --nice=5
`

func TestSlurm(t *testing.T) {
	p := mustParse(t, jobs+work)
	want := []string{"--partition=batch,long", "--account=0815", "--qos=normal", "--constraint=icelake&nvme",
		"--reservation=repair", "--time=2", "--mem=8192M", "--mail-type=END", "-L", "a license", "--nice=5"}
	if got := p.Slurm.Arguments(nil); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// What is said elsewhere counts more.
	over := []string{"time", "mem", "nice", "partition"}
	want = []string{"--account=0815", "--qos=normal", "--constraint=icelake&nvme", "--reservation=repair",
		"--mail-type=END", "-L", "a license"}
	if got := p.Slurm.Arguments(over); !slices.Equal(got, want) {
		t.Errorf("without %q: %q, want %q", over, got, want)
	}
	again, err := Unmarshal("p", Marshal(p))
	if err != nil || !reflect.DeepEqual(p, again) {
		t.Errorf("%v\n got %+v\nwant %+v\n%s", err, again, p, Marshal(p))
	}
	if p := mustParse(t, "slurm: { memory: all, time: , sbatch: --exclude=n3 }\n"+work); !slices.Equal(
		p.Slurm.Arguments(nil), []string{"--mem=0", "--exclude=n3"}) {
		t.Errorf("%q", p.Slurm.Arguments(nil))
	}
	short := mustParse(t, "slurm: { sbatch: [-c 4, -L lic, -H, -x n3 -t 5] }\n"+work).Slurm
	if got := strings.Join(short.Arguments([]string{"time", "licenses"}), " "); got != "-c 4 -H -x n3 -t 5" {
		t.Errorf("options of one letter: %q", got)
	}
	for _, nothing := range []string{"", "slurm:\n", "slurm: {}\n", "slurm: { partition: , sbatch: [] }\n"} {
		if p := mustParse(t, nothing+work); p.Slurm != nil || p.Slurm.Arguments(nil) != nil {
			t.Errorf("%q gives %+v", nothing, p.Slurm)
		}
	}
}

// TestSlurmDecidesNothing holds that who carries a plan out is no part of what it measures: neither of its identity nor
// of the seed that is made of its text.
func TestSlurmDecidesNothing(t *testing.T) {
	of := func(src string) (string, *Plan) {
		p, err := ParseWithFlags("plan.yaml", []byte(src), Flags{SeedElse: SeedOf([]byte(src))}, tables())
		if err != nil {
			t.Fatal(err)
		}
		return Identity(p), p
	}
	const head = "name: nodes\nblocks: 10\n"
	plain, p := of(head + work)
	for _, src := range []string{head + jobs + work, jobs + head + work, head + work + jobs,
		head + "\"slurm\" : { partition: x,\n  time: 5m\n}\n# a remark\n\n" + work,
		head + strings.Replace(jobs, "time: 90s", "time: 9h", 1) + work} {
		got, q := of(src)
		if got != plain || q.Slurm == nil {
			t.Errorf("%s: identity %s with seed %d, want %s with seed %d", src, got, q.Seed, plain, p.Seed)
		}
	}
	if other, _ := of(head + "seed: 8\n" + work); other == plain {
		t.Error("a plan with another seed is the same")
	}
	if SeedOf([]byte(head+"slurmy: 1\n"+work)) == p.Seed || SeedOf([]byte(head+"slurm: 1\nseeds: 2\n"+work)) == p.Seed {
		t.Error("what is not in the section does not count either")
	}
	// As a command line, it is the same run.
	if _, q := of(head + "seed: 7\n" + jobs + work); q.Slurm != nil {
		q.Name = ""
		if args, ok := Arguments(q, tables()); !ok || strings.Contains(strings.Join(args, " "), "batch") {
			t.Errorf("%q %v", args, ok)
		}
	}
}

func TestSlurmMistakes(t *testing.T) {
	for src, want := range map[string]string{
		"slurm: batch\n":                                        "1:8: expected options of Slurm's",
		"slurm: { partiton: x }\n":                              `1:10: slurm: there is no key "partiton"; did you mean "p`,
		"slurm: { partition: [a, b] }\n":                        "1:21: expected text, found a list",
		"slurm: { partition: 'a b' }\n":                         "1:21: slurm: partition: \"a b\" must not be empty",
		"slurm: { account: \"\" }\n":                            "1:19: slurm: account: \"\" must not be empty",
		"slurm:\n  time: 30\n":                                  `such as 30m or 12h, found "30"; did you mean "30m"?`,
		"slurm:\n  time: 1-12:00:00\n":                          "2:9: expected a duration",
		"slurm:\n  time: 5s\n":                                  "2:9: 5s is out of range",
		"slurm:\n  time: 9000h\n":                               "2:9: 9000h is out of range",
		"slurm:\n  memory: much\n":                              "2:11: expected a size such as 8GiB, or all",
		"slurm:\n  memory: 8\n":                                 "2:11: 8 is out of range",
		"slurm:\n  sbatch: [--array=1-3]\n":                     "2:12: slurm: sbatch: --array is not for a fleet",
		"slurm:\n  sbatch: [-W]\n":                              "2:12: slurm: sbatch: --wait is not for a fleet",
		"slurm:\n  sbatch: [-Z 1]\n":                            "2:12: slurm: sbatch: expected an option",
		"slurm:\n  sbatch: [--time=5 -- x]\n":                   "2:12: slurm: sbatch: -- ends the options",
		"slurm:\n  sbatch: [batch]\n":                           "2:12: slurm: sbatch: expected an option",
		"slurm:\n  sbatch: [--nice=5 batch]\n":                  "2:12: slurm: sbatch: \"batch\" is neither an option",
		"slurm:\n  sbatch: [\"--comment='x\"]\n":                "2:12: slurm: sbatch: ",
		"slurm:\n  sbatch: ['']\n":                              "2:12: slurm: sbatch: expected an option",
		"slurm:\n  sbatch: [--nodes=4]\n":                       "2:12: slurm: sbatch: tare sets --nodes itself",
		"slurm:\n  sbatch: [{a: b}]\n":                          "expected an argument for sbatch",
		"slurm:\n  time: 2h\n  sbatch: [-t 5]\n":                "3:12: slurm: sbatch: --time says what time in line 2",
		"slurm:\n  sbatch: [--mem-per-cpu=1G]\n  memory: all\n": "2:12: slurm: sbatch: --mem says what memory in line",
		"slurm:\n  sbatch:\n    - --nice=5\n    - --nice=6\n": "4:7: slurm: sbatch: --nice is given twice; the first " +
			"is in line 3",
	} {
		if _, err := Parse("plan.yaml", []byte(src+work), tables()); err == nil ||
			!strings.Contains(err.Error(), "plan.yaml:"+want) && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", src, err, want)
		}
	}
	long := mustParse(t, "slurm: { time: 100h }\n"+work)
	if long.Slurm.Time != 100*time.Hour {
		t.Errorf("%v", long.Slurm.Time)
	}
}
