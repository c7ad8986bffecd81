package cli

import (
	"strings"
	"testing"
)

func TestUnknownCommands(t *testing.T) {
	for _, c := range []struct {
		line string
		want string // the error; "" where the command is right
	}{
		{"sql nonsense", `tare sql has no command "nonsense"`},
		{"sql nonsense --help", `tare sql has no command "nonsense"`},
		{"sql -h nonsense", `tare sql has no command "nonsense"`},
		{"-v sql inspec --help", `did you mean "inspect"?`},
		{"nonsense --help", `tare has no command "nonsense"`},
		{"sql --help", ""},
		{"sql inspect --help", ""},
		{"help sql", ""},
		{"--help", ""},
		{"__complete run -", ""},
	} {
		t.Run(c.line, func(t *testing.T) {
			code, out, said := typed("", strings.Fields(c.line)...)
			if c.want == "" && (code != exitOK || !strings.Contains(out, "Usage:") && !strings.Contains(out,
				"--budget")) {
				t.Errorf("exit code %d, %s%s", code, out, said)
			}
			if c.want != "" && (code != exitUsage || out != "" || !strings.Contains(said, c.want)) {
				t.Errorf("exit code %d, %q on standard output, said %q, not %q", code, out, said, c.want)
			}
		})
	}
}
