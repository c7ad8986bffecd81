package trace

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// symbols are the kernel's functions by their addresses, ascending.
type symbols struct {
	at    []uint64
	names []string
}

// mostSymbols bounds the functions that are read.
const mostSymbols = 2 << 20

// readSymbols reads the kernel's list of its functions; nothing if it hides their addresses.
func readSymbols() *symbols {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return &symbols{}
	}
	defer f.Close()
	return parseSymbols(f)
}

// parseSymbols reads lines of an address, a type and a name, as /proc/kallsyms has them.
func parseSymbols(r io.Reader) *symbols {
	type symbol struct {
		at   uint64
		name string
	}
	var all []symbol
	lines := bufio.NewScanner(r)
	for lines.Scan() && len(all) < mostSymbols {
		address, rest, _ := strings.Cut(lines.Text(), " ")
		kind, name, ok := strings.Cut(rest, " ")
		at, err := strconv.ParseUint(address, 16, 64)
		if !ok || err != nil || at == 0 || !strings.EqualFold(kind, "t") && !strings.EqualFold(kind, "w") {
			continue
		}
		name, _, _ = strings.Cut(name, "\t") // a module
		all = append(all, symbol{at, strings.Clone(name)})
	}
	slices.SortStableFunc(all, func(a, b symbol) int { return cmp.Compare(a.at, b.at) })
	s := &symbols{}
	for _, x := range all {
		s.at, s.names = append(s.at, x.at), append(s.names, x.name)
	}
	return s
}

// frames are the names of the functions at addresses, up to the first 0.
func (s *symbols) frames(addresses []uint64) (out []string) {
	for _, a := range addresses {
		if a == 0 {
			break
		}
		i, found := slices.BinarySearch(s.at, a)
		if !found {
			i--
		}
		if i >= 0 && len(s.names) > 0 {
			name, _, _ := strings.Cut(s.names[i], ".") // a part that the compiler split off
			out = append(out, name)
		}
	}
	return sleepOnly(out)
}

// sleepOnly leaves out what all sleeps have in common: the tracing and the scheduler at the one end, the entry of
// system calls at the other.
func sleepOnly(frames []string) []string {
	for len(frames) > 0 && (strings.Contains(frames[0], "bpf") || strings.Contains(frames[0], "trace") ||
		strings.Contains(frames[0], "schedule")) {
		frames = frames[1:]
	}
	for n := len(frames); n > 0 && (strings.HasPrefix(frames[n-1], "entry_") || strings.HasPrefix(frames[n-1],
		"do_syscall") || strings.HasPrefix(frames[n-1], "x64_sys_call") || strings.HasPrefix(frames[n-1], "el0") ||
		strings.HasPrefix(frames[n-1], "invoke_syscall")); n = len(frames) {
		frames = frames[:n-1]
	}
	return frames
}
