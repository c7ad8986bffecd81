package dispatch

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

// ParseSbatch reads the #SBATCH lines of a script as arguments for sbatch, by sbatch's own rule: those before the first
// line that is a command.
func ParseSbatch(src []byte) ([]string, error) {
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

// notForFleet are options of sbatch that would make something else of a part's job.
var notForFleet = map[string]string{
	"--array": "each node has a job of its own",
	"-a":      "each node has a job of its own",
	"--wrap":  "tare brings the script",
}

// CheckSbatch refuses arguments for sbatch that would make something else of a part's job. Those that say how many
// nodes, which of them and where the output goes are tare's, and have no effect.
func CheckSbatch(args []string) error {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if why, ok := notForFleet[name]; ok {
			return fmt.Errorf("%s is not for a fleet: %s", name, why)
		}
	}
	return nil
}

// HasTimeLimit tells whether arguments for sbatch set the time limit.
func HasTimeLimit(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return name == "--time" || strings.HasPrefix(arg, "-t") && !strings.HasPrefix(arg, "--")
	})
}
