package remote

import (
	"fmt"
	"path"
	"strings"
	"unicode"
)

// The scripts run with sh -c on the far side. They are one line each, without backslashes and exclamation marks, so
// that the quoting of package shell also works for login shells that are not POSIX shells.

// bases sets the positional parameters to the directories to try, unless some are given: first those that are usually
// on a disk, because /tmp is often in memory.
const bases = `[ $# -gt 0 ] || set -- /var/tmp "${TMPDIR:-/tmp}" /tmp "$HOME"; `

// putScript makes the private directory $0 below the first of the given directories where programs may run, and stores
// standard input there in a file called $1. To find out whether programs may run, it runs an empty file. Normally the
// system rejects that as not executable, and the shell runs it as an empty script. On a file system mounted noexec it
// is forbidden. If the controller goes away, the answer cannot be written and everything is removed.
const putScript = `trap : HUP INT PIPE TERM; umask 077; n=$1; shift; ` + bases +
	`for b in "$@"; do d="$b/$0"; mkdir -- "$d" || continue; ` +
	`if : >"$d/x" && chmod 700 "$d/x" && "$d/x"; then rm -f -- "$d/x"; ` +
	`if cat >"$d/$n" && chmod 700 "$d/$n" && echo "` + putMark + `$d/$n"; then exit 0; fi; ` +
	`rm -rf -- "$d"; echo "tare: cannot keep the agent in $b" >&2; exit 73; fi; ` +
	`rm -rf -- "$d"; echo "tare: no program may run in $b" >&2; done; ` +
	`echo "tare: no directory can take the agent, tried: $*" >&2; exit 72`

// keepScript removes the directory $0 when standard input ends, as it does if the controller is killed, unless it is
// told before that the agent will do it.
const keepScript = `trap : HUP INT PIPE TERM; read -r x; [ "$x" = ` + handedOver + ` ] || { ` + clearScript + `; }`

const handedOver = "handed-over"

// clearScript removes the directory $0 from every place where putScript may have made it.
const clearScript = bases + `for b in "$@"; do rm -rf -- "$b/$0" || exit 1; done`

// putMark distinguishes the script's answer from the output of a login shell.
const putMark = "tare-put:"

// putAnswer finds the path in the output of putScript. It accepts only a path with the requested names.
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
