// Package sbatch reads and checks arguments for Slurm's sbatch, for a job that is one node's part of a fleet.
package sbatch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tare/internal/sys/shell"
)

// MaxScript bounds a script whose #SBATCH lines are read, in bytes.
const MaxScript = 1 << 20

// Lines reads the #SBATCH lines of a script as arguments, by sbatch's own rule: those before the first line that is a
// command.
func Lines(src []byte) ([]string, error) {
	if len(src) > MaxScript {
		return nil, fmt.Errorf("it is longer than %d MiB", MaxScript>>20)
	}
	var args []string
	lines := bufio.NewScanner(bytes.NewReader(src))
	lines.Buffer(nil, MaxScript+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line != "" && line[0] != '#' {
			break
		}
		rest, ok := strings.CutPrefix(line, "#SBATCH")
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		if at := strings.Index(rest, " #"); at >= 0 {
			rest = rest[:at]
		}
		words, err := shell.Split(rest)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if slices.Contains(words, "hetjob") || slices.Contains(words, "packjob") {
			return nil, fmt.Errorf("line %d: a job of several kinds of nodes is not for a fleet: each node has "+
				"its own job", n)
		}
		args = append(args, words...)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, errors.New("it has no #SBATCH lines before its first command")
	}
	return args, nil
}

// short are the options with one letter that matter here, by that letter.
var short = map[byte]string{
	'A': "account", 'C': "constraint", 'D': "chdir", 'J': "job-name", 'M': "clusters", 'N': "nodes", 'V': "version",
	'W': "wait", 'a': "array", 'e': "error", 'h': "help", 'n': "ntasks", 'o': "output", 'p': "partition", 'q': "qos",
	't': "time", 'w': "nodelist",
}

// Names are the options that arguments set, by their long names without dashes. Of options that exclude each other,
// such as --mem and --mem-per-cpu, it is the name of the first. A word that is the value of the one before it is none.
func Names(args []string) (names []string) {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		switch long, isLong := strings.CutPrefix(name, "--"); {
		case isLong && long != "":
			names = append(names, family(long))
		case !isLong && len(name) > 1 && name[0] == '-':
			if long, ok := short[name[1]]; ok {
				names = append(names, long)
			}
		}
	}
	return names
}

func family(option string) string {
	switch option {
	case "mem-per-cpu", "mem-per-gpu":
		return "mem"
	case "usage":
		return "help"
	}
	return option
}

// notForFleet are options that would make something else of a part's job, or none.
var notForFleet = map[string]string{
	"array":     "each node has a job of its own",
	"wrap":      "tare brings the script",
	"wait":      "tare watches the jobs itself",
	"clusters":  "its nodes are those of the cluster that this machine's slurm.conf names",
	"test-only": "no job comes of it",
	"version":   "no job comes of it",
	"help":      "no job comes of it",
}

// own are the options that tare sets for each part's job.
var own = []string{"chdir", "error", "exclusive", "job-name", "nodelist", "nodes", "ntasks", "open-mode", "output",
	"parsable", "requeue"}

// Check refuses arguments that would make something else of a part's job. Those that say how many nodes, which of them
// and where the output goes are tare's, and have no effect.
func Check(args []string) error {
	for _, name := range Names(args) {
		if why, ok := notForFleet[name]; ok {
			return fmt.Errorf("--%s is not for a fleet: %s", name, why)
		}
	}
	return nil
}

// Own tells whether tare sets an option for each part's job, whatever else is said.
func Own(name string) bool { return slices.Contains(own, name) }
