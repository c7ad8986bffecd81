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
