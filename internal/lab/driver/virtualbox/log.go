package virtualbox

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
)

// maxLog bounds how much of a VBox.log is read, in bytes.
const maxLog = 4 << 20

// logFacts has the facts of a started machine in its VBox.log.
type logFacts struct {
	// Engine executes the guest's code: VT-x, AMD-V, NEM, IEM. Interpreted says that no processor does so directly.
	Engine      string
	Interpreted bool
	// Flushes are the lines on the treatment of a guest's flushes, without their times.
	Flushes []string
	Running bool // the machine has run
	// Failed is the last line with a status of VirtualBox that names a failure.
	Failed string
}

// ended is logged whenever a machine was switched off.
const ended = "VERR_INTERRUPTED, termination requested"

var (
	logTime    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d+:\d\d:\d\d\.\d+ `) })
	logFlushes = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Flushes will be |Async flushes will be |: LUN#\d+: (?:disk|CD/DVD|using normal I/O)|NVMe#\d+Ns\d+: disk`)
	})
	logFailed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bVERR_[A-Z0-9_]+`) })
)

// readLog reads a VBox.log. What it does not know it passes over.
func readLog(text string) logFacts {
	var l logFacts
	for line := range strings.Lines(text[:min(len(text), maxLog)]) {
		line = strings.TrimSpace(line)
		line = line[len(logTime().FindString(line)):]
		switch {
		case logFlushes().MatchString(line):
			if len(l.Flushes) < 200 {
				l.Flushes = append(l.Flushes, line)
			}
		case strings.HasSuffix(line, "Machine state changed to 'Running'"):
			l.Running = true
		case logFailed().MatchString(line) && !strings.HasSuffix(line, ended):
			l.Failed = line
		}
		if engine, interpreted, ok := engineOf(line); ok {
			l.Engine, l.Interpreted = engine, interpreted
		}
	}
	return l
}

// openLog returns the end of a VBox.log, at most maxLog bytes.
func openLog(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read VirtualBox's log: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLog))
	if err != nil {
		return "", fmt.Errorf("read VirtualBox's log: %w", err)
	}
	return string(b), nil
}

// engineOf tells what a line of the log says of what executes the guest's code. A later line counts more.
func engineOf(line string) (engine string, interpreted, ok bool) {
	said, ok := strings.CutPrefix(line, "HM: HMR3Init: ")
	switch {
	case strings.HasPrefix(line, "EMR3Init: fIemExecutesAll=true"), ok && strings.HasPrefix(said,
		"Falling back on IEM"):
		return "IEM", true, true
	case strings.HasPrefix(line, "NEM: NEMR3Init: Active"):
		return "NEM", false, true
	case ok && strings.HasPrefix(said, "VT-x"):
		return "VT-x", false, true
	case ok && strings.HasPrefix(said, "AMD-V"):
		return "AMD-V", false, true
	}
	return "", false, false
}

// tell adds what the log says to facts.
func (l *logFacts) tell(facts map[string]string) {
	for k, s := range map[string]string{"virtualbox.engine": l.Engine, "virtualbox.flushes": strings.Join(l.Flushes,
		"\n")} {
		if s != "" {
			facts[k] = s
		}
	}
}
