// Package sbatch reads and checks arguments for Slurm's sbatch, for a job that is one node's part of a fleet.
package sbatch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxScript bounds a script whose #SBATCH lines are read, in bytes.
const MaxScript = 1 << 20

// Lines reads the #SBATCH lines of a script as arguments, as sbatch does (its opt.c, get_argument): the lines that
// begin so at their first column, before the first line that is a command.
func Lines(src []byte) ([]string, error) {
	if len(src) > MaxScript {
		return nil, fmt.Errorf("it is longer than %d MiB", MaxScript>>20)
	}
	var args []string
	for n, line := range strings.Split(string(src), "\n") {
		if strings.HasSuffix(line, "\r") {
			return nil,
				fmt.Errorf("line %d ends as lines of DOS do (CR LF), which sbatch refuses; dos2unix mends the file",
					n+1)
		}
		rest, ok := strings.CutPrefix(line, "#SBATCH")
		if !ok {
			if line = strings.TrimLeft(line, space); line != "" && line[0] != '#' {
				break
			}
			continue
		}
		words, err := arguments(rest)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		if slices.Contains(words, "hetjob") || slices.Contains(words, "packjob") {
			return nil, fmt.Errorf("line %d: a job of several kinds of nodes is not for a fleet: each node has "+
				"its own job", n+1)
		}
		args = append(args, words...)
	}
	if len(args) == 0 {
		return nil, errors.New("it has no #SBATCH lines before its first command")
	}
	return args, nil
}

// space is what C's isspace takes for one.
const space = " \t\v\f\r\n"

// arguments divides what follows the magic word: quotes of both kinds hold blanks together, a backslash takes the next
// character as it is, but for a blank outside quotes, and an unquoted # ends the line, also within a word. An empty
// word ends it, too.
func arguments(line string) (words []string, err error) {
	for {
		line = strings.TrimLeft(line, space)
		if strings.HasPrefix(line, ":") {
			return nil, errors.New("sbatch takes a : that begins a word for a job of several kinds of nodes; quote it")
		}
		word, quote, at := []byte{}, byte(0), 0
	word:
		for ; at < len(line); at++ {
			switch c := line[at]; {
			case quote == 0 && strings.IndexByte(space, c) >= 0:
				break word
			case c == '\\':
				if at++; at < len(line) && (quote != 0 || strings.IndexByte(space, line[at]) < 0) {
					word = append(word, line[at])
				} else {
					at--
				}
			case c == quote:
				quote = 0
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case quote == 0 && c == '#':
				break word
			default:
				word = append(word, c)
			}
		}
		if quote != 0 {
			return nil, fmt.Errorf("a quote %c is not closed", quote)
		}
		if len(word) == 0 {
			return words, nil
		}
		words, line = append(words, string(word)), line[at:]
	}
}

// valued are the options with one letter that take a value, in the same word or the next one, by that letter; flags
// those that take none (-k takes one only in its word).
var (
	valued = map[byte]string{
		'A': "account", 'B': "extra-node-info", 'C': "constraint", 'D': "chdir", 'F': "nodefile", 'G': "gpus",
		'J': "job-name", 'L': "licenses", 'M': "clusters", 'N': "nodes", 'S': "core-spec", 'a': "array", 'b': "begin",
		'c': "cpus-per-task", 'd': "dependency", 'e': "error", 'i': "input", 'm': "distribution", 'n': "ntasks",
		'o': "output", 'p': "partition", 'q': "qos", 't': "time", 'w': "nodelist", 'x': "exclude",
	}
	flags = map[byte]string{
		'H': "hold", 'I': "immediate", 'O': "overcommit", 'Q': "quiet", 'V': "version", 'W': "wait", 'h': "help",
		'k': "no-kill", 's': "oversubscribe", 'v': "verbose",
	}
)

// long are the names of sbatch's options, of which it takes the beginning of one for it.
const long = " " +
	"account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint " +
	"container container-id contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task " +
	"deadline delay-boot dependency distribution error exclude exclusive export export-file extra " +
	"extra-node-info get-user-env gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task " +
	"gres gres-flags help hint hold ignore-pbs input job-name kill-on-invalid-dep licenses mail-type " +
	"mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice no-kill no-requeue " +
	"nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket " +
	"open-mode output overcommit oversubscribe parsable partition prefer priority profile propagate qos " +
	"quiet reboot requeue reservation resv-ports segment signal sockets-per-node spread-job stepmgr switches " +
	"test-only thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid usage " +
	"use-min-nodes verbose version wait wait-all-nodes wckey wrap "

// alone are those of them whose value, where they have one, is in the same word.
const alone = " " +
	"contiguous exclusive get-user-env help hold ignore-pbs nice no-kill no-requeue overcommit oversubscribe " +
	"parsable propagate quiet reboot requeue resv-ports spread-job stepmgr test-only usage use-min-nodes " +
	"verbose version wait "

// Names are the options that arguments set, by their long names without dashes, also where only the beginning of one is
// given. Of options that exclude each other, such as --mem and --mem-per-cpu, it is the name of the first. A word that
// is the value of the one before it is none.
func Names(args []string) (names []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if name, isLong := strings.CutPrefix(arg, "--"); isLong {
			if name, _, _ = strings.Cut(name, "="); name != "" {
				names = append(names, family(whole(name)))
			}
			continue
		}
		if len(arg) < 2 || arg[0] != '-' {
			continue
		}
		for at := 1; at < len(arg); at++ {
			if name, ok := valued[arg[at]]; ok {
				names = append(names, name)
				if at == len(arg)-1 {
					i++
				}
				break
			}
			name, ok := flags[arg[at]]
			if !ok {
				break
			}
			names = append(names, name)
			if arg[at] == 'k' {
				break
			}
		}
	}
	return names
}

// Stray is the first word that is neither an option nor the value of the option before it.
func Stray(args []string) (word string, ok bool) {
	for i, value := 0, false; i < len(args); i++ {
		switch arg := args[i]; {
		case value:
			value = false
		case len(arg) < 2 || arg[0] != '-':
			return arg, true
		default:
			value = wants(arg)
		}
	}
	return "", false
}

// wants tells whether the word behind an option is its value. Of an option that is not known it may be.
func wants(arg string) bool {
	if name, isLong := strings.CutPrefix(arg, "--"); isLong {
		return !strings.Contains(name, "=") && !strings.Contains(alone, " "+whole(name)+" ")
	}
	for at := 1; at < len(arg); at++ {
		if _, ok := valued[arg[at]]; ok {
			return at == len(arg)-1
		}
		if _, ok := flags[arg[at]]; !ok || arg[at] == 'k' {
			return !ok && at == len(arg)-1
		}
	}
	return false
}

// whole is the name of the only option that begins so; else what was given.
func whole(name string) string {
	if strings.Contains(name, " ") || strings.Contains(long, " "+name+" ") {
		return name
	}
	_, rest, _ := strings.Cut(long, " "+name)
	if rest == "" || strings.Contains(rest, " "+name) {
		return name
	}
	end, _, _ := strings.Cut(rest, " ")
	return name + end
}

func family(option string) string {
	switch option {
	case "mem-per-cpu", "mem-per-gpu":
		return "mem"
	case "usage":
		return "help"
	case "cluster":
		return "clusters"
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
	if slices.Contains(args, "--") {
		return errors.New("-- ends the options, and what follows it would take the place of tare's script")
	}
	if word, ok := Stray(args); ok {
		return fmt.Errorf("%q is neither an option of sbatch nor the value of one, and would take the place of tare's "+
			"script", word)
	}
	for _, name := range Names(args) {
		if why, ok := notForFleet[name]; ok {
			return fmt.Errorf("--%s is not for a fleet: %s", name, why)
		}
	}
	return nil
}

// Own tells whether tare sets an option for each part's job, whatever else is said.
func Own(name string) bool { return slices.Contains(own, name) }
