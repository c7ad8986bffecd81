package cli

import (
	"strings"
	"testing"
)

// A dry run says from where the energy would be read, or why it would not be, and starts no meter.
func TestEnergyOfADryRun(t *testing.T) {
	for meter, want := range map[string]string{
		"meter:/no/such":                 "energy     not measured: ",
		"meter:sh -c 'echo 1 > started'": "energy     by the meter's command, which a dry run does not start",
	} {
		for _, command := range []string{"run", "density"} {
			args := []string{command, "-e", "host", "-w", "cpu.prime", "--energy", meter, "--dry-run"}
			code, _, said := typed("", args...)
			if code != 0 || !strings.Contains(said, want) {
				t.Errorf("%s %s: exit code %d: %s", command, meter, code, said)
			}
		}
	}
}

// How density's own flags are called is what its messages say.
func TestDensityNamesItsFlags(t *testing.T) {
	for flag, want := range map[string]string{"--max": "--max 0: expected", "--floor": "--floor: expected"} {
		code, _, said := typed("", "density", "-e", "host", "-w", "cpu.prime", flag, "0")
		if code != 2 || !strings.Contains(said, want) {
			t.Errorf("%s 0: exit code %d: %s", flag, code, said)
		}
	}
	code, _, said := typed("", "density", "-e", "host", "-w", "cpu.prime", "--floor", "80%", "--dry-run")
	if code != 0 || !strings.Contains(said, "less than 80 %") {
		t.Errorf("--floor 80%%: exit code %d: %s", code, said)
	}
}
