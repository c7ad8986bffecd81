// Package perf samples where processes spend their time on processors, by perf, the program that comes with the Linux
// kernel. It is only used where perf is installed.
//
// The samples are taken by a clock of the kernel (cpu-clock), which needs no counter of the processor and so works in a
// virtual machine, too. A sample is the stack of what ran: functions of the kernel by name if /proc/kallsyms shows
// addresses, functions of programs as far as these keep frame pointers and symbols.
package perf

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Rate is how many samples are taken of each second on a processor. It is prime, so that nothing that repeats in round
// times hides from it.
const Rate = 997

// Bounds of perf's output.
const (
	mostLine    = 8 << 10 // bytes
	mostFrames  = 127     // of a sample: the kernel's own limit
	mostName    = 200     // bytes of a function's name
	mostStacks  = 50_000  // that differ
	mostSamples = 2_000_000
)

// Frame is a function on a stack.
type Frame struct {
	Name   string // "[FILE]" where the function is not known
	Kernel bool
	Known  bool // the function's name is known
}

// Stack is a stack that was seen, with how often.
type Stack struct {
	Frames []Frame // the outermost first
	Count  int64
}

// Profile are the samples of a span of time.
type Profile struct {
	Stacks  []Stack // by their frames
	Samples int64   // in the span
	Cut     bool    // there were more than this package keeps
}

// Parse reads what `perf script` prints with the fields comm, pid, tid, time, ip, sym and dso. It keeps the samples
// from one time to another, in ns of the clock that perf recorded by; to <= 0 means all after from.
func Parse(r io.Reader, from, to int64) (*Profile, error) {
	p := &Profile{}
	counts := map[string]int64{}
	stacks := map[string][]Frame{}
	var frames []Frame // of the sample that is read, the innermost first
	in := false        // such a sample is read
	end := func() {
		if !in || len(frames) == 0 {
			in = false
			return
		}
		in = false
		slices.Reverse(frames)
		var key strings.Builder
		for _, f := range frames {
			key.WriteString(f.Name)
			key.WriteByte(0)
		}
		k := key.String()
		if _, ok := stacks[k]; !ok {
			if len(stacks) >= mostStacks {
				p.Cut = true
				return
			}
			stacks[k] = slices.Clone(frames)
		}
		counts[k]++
		p.Samples++
	}
	lines := bufio.NewReaderSize(r, mostLine)
	for {
		raw, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("perf script: a line of more than %d bytes", mostLine)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read perf script: %w", err)
		}
		line := strings.TrimSuffix(string(raw), "\n")
		switch {
		case strings.TrimSpace(line) == "":
			end()
		case line[0] == '\t':
			if f, ok := frame(line); ok && in && len(frames) < mostFrames {
				frames = append(frames, f)
			}
		default:
			end()
			at, rest, ok := sampleTime(line)
			if !ok {
				return nil, fmt.Errorf("perf script: %.60q is no sample", line)
			}
			in, frames = at >= from && (to <= 0 || at < to), frames[:0]
			if in && p.Samples >= mostSamples {
				in, p.Cut = false, true
			}
			if f, ok := frame("\t" + rest); ok && in { // a stack of one function stands in the same line
				frames = append(frames, f)
			}
		}
		if err != nil {
			end()
			break
		}
	}
	for k, f := range stacks {
		p.Stacks = append(p.Stacks, Stack{Frames: f, Count: counts[k]})
	}
	slices.SortFunc(p.Stacks, func(a, b Stack) int {
		byName := func(x, y Frame) int { return cmp.Compare(x.Name, y.Name) }
		return cmp.Or(slices.CompareFunc(a.Frames, b.Frames, byName), cmp.Compare(a.Count, b.Count))
	})
	return p, nil
}

// sampleTime reads a sample's first line: a name that may hold anything, ids, the time in seconds and a colon. It
// returns the time in ns, and what stands behind it.
func sampleTime(line string) (ns int64, rest string, ok bool) {
	for at := 0; at < len(line); {
		colon := strings.IndexByte(line[at:], ':')
		if colon < 0 {
			break
		}
		colon += at
		start := strings.LastIndexByte(line[:colon], ' ') + 1
		seconds, fraction, found := strings.Cut(line[start:colon], ".")
		if s, err := strconv.ParseInt(seconds, 10, 64); found && err == nil && s >= 0 && s < 1<<32 &&
			len(fraction) >= 6 && len(fraction) <= 9 && ids(line[:start]) {
			f, err := strconv.ParseInt(fraction+strings.Repeat("0", 9-len(fraction)), 10, 64)
			if err == nil && f >= 0 {
				return s*1_000_000_000 + f, strings.TrimSpace(line[colon+1:]), true
			}
		}
		at = colon + 1
	}
	return 0, "", false
}

// ids tells whether a text ends with the ids of a process and a thread: "12/13 ".
func ids(text string) bool {
	text = strings.TrimRight(text, " ")
	pid, tid, ok := strings.Cut(text[strings.LastIndexByte(text, ' ')+1:], "/")
	return ok && number(pid) && number(tid)
}

func number(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// frame reads a line of a stack: an address, the function, and the file in parentheses.
func frame(line string) (Frame, bool) {
	address, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	ip, err := strconv.ParseUint(address, 16, 64)
	if err != nil {
		return Frame{}, false
	}
	f := Frame{Kernel: ip>>63 == 1}
	name, file := rest, ""
	if inner, ok := strings.CutSuffix(rest, ")"); ok {
		inner = strings.TrimSuffix(inner, " (deleted)")
		if at := strings.LastIndex(inner, " ("); at >= 0 {
			name, file = inner[:at], inner[at+2:]
		}
	}
	if name = strings.TrimSpace(name); name != "" && name != "[unknown]" {
		f.Known, f.Name = true, name[:min(len(name), mostName)]
		return f, true
	}
	switch {
	case f.Kernel:
		f.Name = "[kernel]"
	case file == "" || file == "[unknown]":
		f.Name = "[unknown]"
	default:
		f.Name = "[" + strings.Trim(filepath.Base(file), "[]") + "]"
		f.Name = f.Name[:min(len(f.Name), mostName)]
	}
	return f, true
}
