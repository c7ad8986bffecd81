package sbatch

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	got, err := Lines([]byte("#!/bin/bash\n#SBATCH --partition=main   # the large one\n\n# a remark\n" +
		"#SBATCH -A 'my account' --constraint=\"a&b\"\n##SBATCH --mem=1\n  #SBATCH --mem=2\nmodule load x\n" +
		"#SBATCH --time=5\n"))
	want := []string{"--partition=main", "-A", "my account", "--constraint=a&b"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
	if err := Check(want); err != nil {
		t.Error(err)
	}
	for src, part := range map[string]string{
		"echo\n":                                   "no #SBATCH lines",
		"#SBATCH --comment='x\n":                   "line 1",
		"#SBATCH -N1\r\n":                          "line 1 ends as lines of DOS do",
		"#SBATCH --comment=a\n#SBATCH :b\n":        "line 2",
		"#SBATCH -N1\n#SBATCH hetjob\n":            "line 2: a job of several kinds",
		strings.Repeat("#SBATCH -N1\n", MaxScript): "longer than",
	} {
		if _, err := Lines([]byte(src)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%.40q: %v, want %q", src, err, part)
		}
	}
}

// TestSbatchAgrees has sbatch itself read each line: with its own debugging on it names the words that it finds, and it
// ends at the word that no option is, before it asks any cluster.
func TestSbatchAgrees(t *testing.T) {
	if _, err := exec.LookPath("sbatch"); err != nil {
		t.Skip("sbatch is not installed")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(conf, []byte("ClusterName=none\nSlurmctldHost=localhost\nSlurmctldPort=1\n"+
		"NodeName=localhost\nPartitionName=p Nodes=ALL\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Found in script, argument "(.*)"\n`)
	for i, text := range []string{
		"#SBATCH --time=5 --mem=2G", "  #SBATCH --time=5", "\t#SBATCH --time=5", "#SBATCH--qos=high",
		"#SBATCHES --mem=2",
		"#SBATCH -p batch#night", "#SBATCH --mem=4G\t# all of it", "#SBATCH\t--mem=4G\v-n1", "# SBATCH -n1",
		"##SBATCH -n1",
		`#SBATCH --comment="run # 5" --time=5`, "#SBATCH --comment='run # 5'x#y", `#SBATCH --comment=a\ b`,
		`#SBATCH --comment=a\#b\"c\\d\e`, `#SBATCH --comment="a\"b\c'd"e'f"g'`, `#SBATCH --comment="" -n1`, `#SBATCH "" -n1`,
		`#SBATCH -n1 \`, "#SBATCH -n1\n\n   \n # remark\n#SBATCH -n2", "#SBATCH -n1 a:b",
		"#sbatch -n1", "#SBATCH",
	} {
		file := filepath.Join(dir, strconv.Itoa(i))
		script := "#!/bin/sh\n" + text + "\n#SBATCH none-such\n"
		if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "sbatch", "-vvvv", file)
		cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
		said, _ := cmd.CombinedOutput()
		var want []string
		for _, m := range found.FindAllStringSubmatch(string(said), -1) {
			want = append(want, m[1])
		}
		got, err := Lines([]byte(script))
		if err != nil && len(want) > 0 || !slices.Equal(got, want) {
			t.Errorf("%q: %q %v, and sbatch finds %q", text, got, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, arg := range []string{"--array=1-3", "-a", "-a1-3", "--wrap=true", "-W", "--wait", "-Mother", "--test-only",
		"--usage", "--arr=1-3", "--wra=true", "--cluster=x", "-HW", "-Qa1"} {
		if err := Check([]string{"--time=1", arg}); err == nil || !strings.Contains(err.Error(), "is not for a fleet") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	if err := Check([]string{"--time=1", "--", "x"}); err == nil || !strings.Contains(err.Error(), "ends the options") {
		t.Errorf("--: %v", err)
	}
	for _, args := range []string{"-c 4", "-H", "-x -Wall", "-L a@b:1", "--verb", "--part=x"} {
		if err := Check(strings.Fields(args)); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestStray(t *testing.T) {
	for args, want := range map[string]string{
		"job.sh": "job.sh", "--time=1 job.sh": "job.sh", "-p main job.sh": "job.sh", "-H job.sh": "job.sh",
		"--hold job.sh": "job.sh", "--exclusive user": "user", "-t5 job.sh": "job.sh", "-": "-", "-koff x": "x",
		"--requ x": "x", "--time 5 6": "6",
		"--partition main": "", "--part main": "", "-p main": "", "-Hp main": "", "--new-option x": "", "-Z x": "",
		"--comment -x --hold": "", "": "",
	} {
		word, ok := Stray(strings.Fields(args))
		if word != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", args, word, ok, want)
		}
		err := Check(strings.Fields(args))
		if ok && (err == nil || !strings.Contains(err.Error(), "place of tare's script")) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestOptionsAreWhole: none of the names was broken where a line ends.
func TestOptionsAreWhole(t *testing.T) {
	for _, list := range []string{long, alone} {
		names := strings.Fields(list)
		for i, name := range names {
			if strings.Trim(name, "-") != name || !strings.Contains(long, " "+name+" ") || i > 0 && name <= names[i-1] {
				t.Errorf("%q is no name, or stands in the wrong place", name)
			}
		}
	}
	for _, letters := range []map[byte]string{valued, flags} {
		for letter, name := range letters {
			if name != "immediate" && !strings.Contains(long, " "+name+" ") {
				t.Errorf("-%c is --%s, which is no option", letter, name)
			}
		}
	}
	for arg, want := range map[string]string{"--extra-n=1": "extra-node-info", "--threads=1": "threads-per-core",
		"--wait-all=1": "wait-all-nodes", "--wai": "wai"} {
		if got := strings.Join(Names([]string{arg}), " "); got != want {
			t.Errorf("%s sets %q, want %q", arg, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for args, want := range map[string]string{
		"--time=5": "time", "--time 5": "time", "-t5": "time", "-t 5": "time", "--time-min=5": "time-min",
		"--tmp=5": "tmp", "": "", "-p main -A x": "partition account", "--mem-per-cpu=1G --mem=2G": "mem mem",
		"- -- word": "", "-Z": "", "-c 4": "cpus-per-task", "-c4": "cpus-per-task", "-x n3": "exclude",
		"-L lic": "licenses", "-H": "hold", "-Hvt5": "hold verbose time", "-x -n3": "exclude", "-koff": "no-kill",
		"--nodel=a": "nodelist", "--nod=a": "nod", "--ntasks=1": "ntasks", "--out=x --exclus": "output exclusive",
		"--unheard-of": "unheard-of",
	} {
		if got := strings.Join(Names(strings.Fields(args)), " "); got != want {
			t.Errorf("%q sets %q, want %q", args, got, want)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("#!/bin/sh\n#SBATCH --time=5 # remark\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		args, err := Lines(src)
		if err == nil && (len(args) == 0 || len(args) > len(src)) {
			t.Errorf("%d arguments of %d bytes", len(args), len(src))
		}
		if names := Names(args); len(names) > len(src) {
			t.Errorf("%d options of %d bytes", len(names), len(src))
		}
	})
}
