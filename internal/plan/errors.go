package plan

import (
	"fmt"
	"sort"
	"strings"
)

// MaxErrors bounds how many mistakes are reported at once.
const MaxErrors = 10

// Error is one mistake in a plan file or on the command line.
type Error struct {
	File      string // the plan file, or the flag as typed
	Line, Col int    // from 1; 0 for a flag
	Message   string // what is wrong, what was expected, the nearest valid name
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Message)
}

// Errors are the mistakes that kept a plan from being read, in the order of the file. It is never empty.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// pos is a place in a plan file, or a flag when line is 0.
type pos struct {
	file      string
	line, col int
}

// problems collects mistakes while reading goes on, so that one run shows them all.
type problems struct {
	list []*Error
	more int
	seen map[string]bool
}

func (p *problems) add(at pos, format string, args ...any) {
	e := &Error{at.file, at.line, at.col, fmt.Sprintf(format, args...)}
	if p.seen[e.Error()] {
		return
	}
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	p.seen[e.Error()] = true
	if len(p.list) == 10*MaxErrors {
		p.more++
		return
	}
	p.list = append(p.list, e)
}

// any tells whether there was a mistake.
func (p *problems) any() bool { return len(p.list) > 0 }

// err returns the first MaxErrors mistakes in the order of the file, or nil.
func (p *problems) err() error {
	if !p.any() {
		return nil
	}
	sort.SliceStable(p.list, func(i, j int) bool {
		a, b := p.list[i], p.list[j]
		return a.Line < b.Line || a.Line == b.Line && a.Col < b.Col
	})
	list, more := p.list, p.more
	if len(list) > MaxErrors {
		more += len(list) - MaxErrors
		list = list[:MaxErrors]
	}
	if more > 0 {
		last := *list[len(list)-1]
		last.Message += fmt.Sprintf(" (and %d more after this one)", more)
		list = append(append(Errors{}, list[:len(list)-1]...), &last)
	}
	return Errors(list)
}
