package collect

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Bounds of a list of hosts.
const (
	MaxHostsFile = 8 << 20 // bytes
	LongestHost  = 253     // characters of a host's name, as in DNS
)

// ParseHosts reads one name on each line. What follows a # is a remark. Names that differ only in case are one.
func ParseHosts(src []byte) ([]string, error) {
	var out []string
	first := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(src))
	lines.Buffer(nil, MaxHostsFile+1)
	for n := 1; lines.Scan(); n++ {
		name, _, _ := strings.Cut(lines.Text(), "#")
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		switch low := strings.ToLower(name); {
		case len(name) > LongestHost || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }):
			return nil, fmt.Errorf("line %d: %.60q is not the name of a host", n, name)
		case first[low] > 0:
			return nil, fmt.Errorf("line %d: host %q was named in line %d already", n, name, first[low])
		case len(out) == maxHosts:
			return nil, fmt.Errorf("line %d: more than %d hosts", n, maxHosts)
		default:
			first[low] = n
		}
		out = append(out, name)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("it names no host")
	}
	return out, nil
}
