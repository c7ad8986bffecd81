package cli

import (
	"strings"
	"testing"
)

// What --try names is a setting with a value that the target does not have already.
func TestSweepTries(t *testing.T) {
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--try", "cpus"}, 2, "--try cpus: give it a value: --try cpus=VALUE"},
		{[]string{"--try", "cpus="}, 2, "--try cpus=: give it a value"},
		{[]string{"--try", "cpuz=0"}, 2, `did you mean "cpus"?`},
		{[]string{"--try", "cpus=0", "--try", "cpus=0"}, 2, "--try cpus=0 is given twice"},
		{[]string{"--try", "net=none"}, 2, "without    net=none: box has it already"},
		{[]string{"--try", "net=none", "--try", "net=host"}, 0, "targets    box (baseline), box-net-host"},
	} {
		args := append([]string{"sweep", "-e", "box=namespace", "-w", "cpu.prime", "--dry-run"}, x.args...)
		if code, out, said := typed("", args...); code != x.code || !strings.Contains(said, x.want) {
			t.Errorf("%q: exit code %d: %s%s", x.args, code, said, out)
		}
	}
}

// What is wrong with the target or the work is said once, whatever number of settings there is.
func TestSweepSaysItOnce(t *testing.T) {
	for name, x := range map[string]struct {
		args []string
		want string
	}{
		"the engine": {[]string{"-e", "docker=docker?host=unix:///nonexistent/docker.sock", "-w", "fs.randread"},
			"docker cannot be opened here: "},
		"the work":         {[]string{"-e", "vm=qemu", "-w", "fs.randreat"}, `did you mean "fs.randread"?`},
		"the mount's kind": {[]string{"-e", "vm=qemu", "-m", "vm:a=9q", "-w", "fs.randread"}, `did you mean "9p"?`},
		"the mount's setting": {[]string{"-e", "vm=qemu", "-m", "vm:a=9p?msiz=8192", "-w", "fs.randread"},
			`did you mean "msize"?`},
		"the setting": {[]string{"-e", "vm=qemu?cach=none", "-w", "fs.randread"}, `did you mean "cache"?`},
	} {
		code, out, said := typed("", append([]string{"sweep", "--dry-run"}, x.args...)...)
		if code != 2 || !strings.Contains(said, x.want) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: exit code %d: %s%s", name, code, said, out)
		}
	}
	var r reasons
	r.add("a=1", "x")
	r.add("b=2", "y")
	r.add("c=3", "x")
	var out strings.Builder
	if r.tell(&out); out.String() != "without    a=1, c=3: x\nwithout    b=2: y\n" {
		t.Errorf("%q", out.String())
	}
}
