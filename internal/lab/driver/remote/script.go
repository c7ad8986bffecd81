package remote

import (
	"fmt"
	"path"
	"strings"
	"unicode"
)

// The scripts run with sh -c at the far side. They stay on one line and use no backslash and no exclamation mark, so
// that the quoting of package shell holds for login shells other than POSIX's, too.

// bases sets the positional parameters to the directories to try, unless some are given: first those that are on a disk
// almost everywhere, since /tmp is often memory.
const bases = `[ $# -gt 0 ] || set -- /var/tmp "${TMPDIR:-/tmp}" /tmp "$HOME"; `

// putScript makes the directory $0, private, below the first of the given directories where programs may run, and keeps
// standard input there in a file called $1. That programs may run is found out with an empty file: the system refuses
// it as no program, which the shell then runs as a script of no commands, but on a file system mounted noexec it is
// forbidden. When the controller goes away, the answer cannot be written and everything is removed.
const putScript = `trap : HUP INT PIPE TERM; umask 077; n=$1; shift; ` + bases +
	`for b in "$@"; do d="$b/$0"; mkdir -- "$d" || continue; ` +
	`if : >"$d/x" && chmod 700 "$d/x" && "$d/x"; then rm -f -- "$d/x"; ` +
	`if cat >"$d/$n" && chmod 700 "$d/$n" && echo "` + putMark + `$d/$n"; then exit 0; fi; ` +
	`rm -rf -- "$d"; echo "tare: cannot keep the agent in $b" >&2; exit 73; fi; ` +
	`rm -rf -- "$d"; echo "tare: no program may run in $b" >&2; done; ` +
	`echo "tare: no directory can take the agent, tried: $*" >&2; exit 72`

// keepScript removes the directory $0 when standard input ends, as it does when the controller is killed, unless it is
// told before that somebody else will.
const keepScript = `trap : HUP INT PIPE TERM; read -r x; [ "$x" = ` + handedOver + ` ] || { ` + clearScript + `; }`

const handedOver = "handed-over"

// clearScript removes the directory $0 from wherever putScript may have made it.
const clearScript = bases + `for b in "$@"; do rm -rf -- "$b/$0" || exit 1; done`

// putMark tells the script's answer from what a login shell prints.
const putMark = "tare-put:"

// putAnswer finds the path in the output of putScript. It trusts it only as far as it must: the name is the one that
// was asked for.
func putAnswer(output []byte, dir, name string) (string, error) {
	for line := range strings.Lines(string(output)) {
		_, p, ok := strings.Cut(strings.TrimRight(line, "\r\n"), putMark)
		if !ok {
			continue
		}
		if !path.IsAbs(p) || path.Base(p) != name || path.Base(path.Dir(p)) != dir ||
			strings.ContainsFunc(p, unicode.IsControl) {
			return "", fmt.Errorf("the remote side put the agent at %.200q, which was not requested", p)
		}
		return p, nil
	}
	return "", fmt.Errorf("the remote side did not report where it put the agent")
}
