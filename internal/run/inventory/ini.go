package inventory

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"tare/internal/sys/shell"
)

// parseINI reads the form with [groups].
func parseINI(src []byte) (*tree, error) {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if bytes.HasPrefix(src, []byte("#!")) {
		return nil, fmt.Errorf("it is a program that makes an inventory: %w", ErrAnsible)
	}
	t := newTree()
	lines := bufio.NewScanner(bytes.NewReader(src))
	lines.Buffer(nil, 1<<20)
	section, kind := "", "" // kind is "", children or vars
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		var err error
		switch {
		case line[0] == '[' && !addressed(line):
			section, kind, err = header(line)
			if err == nil && section != "ungrouped" {
				t.group(section)
			}
		case kind == "vars":
			name, value, ok := strings.Cut(line, "=")
			if !ok {
				err = fmt.Errorf("%.60q is not KEY=VALUE", line)
				break
			}
			t.group(section).vars[strings.TrimSpace(name)] = unquote(strings.TrimSpace(value))
		case kind == "children":
			name := strings.TrimSpace(comment(line))
			t.group(name)
			t.group(section).children = append(t.group(section).children, name)
		default:
			err = t.hostLine(section, line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return t, lines.Err()
}

// addressed tells whether a line begins with the address of a host in brackets, which a port follows.
func addressed(line string) bool {
	word, _, _ := strings.Cut(line, " ")
	_, port := address(word)
	return port != ""
}

// header reads [group], [group:children] or [group:vars].
func header(line string) (section, kind string, err error) {
	inner, rest, ok := strings.Cut(line[1:], "]")
	if rest = strings.TrimSpace(rest); !ok || rest != "" && rest[0] != '#' && rest[0] != ';' {
		return "", "", fmt.Errorf("%.60q is not [GROUP]", line)
	}
	section, kind, _ = strings.Cut(inner, ":")
	if checkName(section) != nil {
		return "", "", fmt.Errorf("%.60q is not the name of a group", section)
	}
	switch kind {
	case "", "children", "vars":
		return section, kind, nil
	}
	return "", "", fmt.Errorf("[%.60s]: after the colon comes children or vars", inner)
}

// comment cuts off a remark at the end of a line.
func comment(line string) string {
	if i := strings.Index(line, " #"); i >= 0 {
		return line[:i]
	}
	return line
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// hostLine reads a host, or a range of them, with its variables.
func (t *tree) hostLine(section, line string) error {
	words, err := shell.Split(comment(line))
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return nil
	}
	vars := map[string]string{}
	for _, w := range words[1:] {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return fmt.Errorf("%.60q is not KEY=VALUE", w)
		}
		vars[name] = value
	}
	pattern, port := address(words[0])
	if _, said := vars["ansible_port"]; port != "" && !said {
		vars["ansible_port"] = port
	}
	names, err := expand(pattern)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := t.host(name, vars); err != nil {
			return err
		}
		if section != "" && section != "ungrouped" {
			t.group(section).hosts = append(t.group(section).hosts, name)
		}
	}
	return nil
}

// mostOfRange bounds the hosts that one line stands for.
const mostOfRange = 10_000

// expand fills in ranges such as web[01:50].example.com, db-[a:f] and n[0:100:10].
func expand(pattern string) ([]string, error) {
	open := strings.IndexByte(pattern, '[')
	if _, err := netip.ParseAddr(pattern); open < 0 || err == nil {
		return []string{pattern}, nil
	}
	inner, rest, ok := strings.Cut(pattern[open+1:], "]")
	if !ok {
		return nil, fmt.Errorf("%.60q has a [ without a ]", pattern)
	}
	bounds := strings.Split(inner, ":")
	step := 1
	if len(bounds) == 3 {
		n, err := strconv.Atoi(bounds[2])
		if err != nil || n < 1 {
			return nil, fmt.Errorf("[%.40s]: %.20q is no step", inner, bounds[2])
		}
		step = n
	} else if len(bounds) != 2 {
		return nil, fmt.Errorf("[%.40s] is no range: write [FIRST:LAST] or [FIRST:LAST:STEP]", inner)
	}
	values, err := series(bounds[0], bounds[1], step)
	if err != nil {
		return nil, err
	}
	tails, err := expand(rest)
	if err != nil {
		return nil, err
	}
	if len(values)*len(tails) > mostOfRange {
		return nil, fmt.Errorf("%.60q stands for more than %d hosts", pattern, mostOfRange)
	}
	var out []string
	for _, v := range values {
		for _, tail := range tails {
			out = append(out, pattern[:open]+v+tail)
		}
	}
	return out, nil
}

// series lists what lies from first to last: numbers, with zeros in front if first has any, or letters.
func series(first, last string, step int) ([]string, error) {
	bad := fmt.Errorf("[%.20s:%.20s] is no range of numbers or letters", first, last)
	if first == "" {
		first = "0"
	}
	if len(first) == 1 && len(last) == 1 && letter(first[0]) && letter(last[0]) {
		var out []string
		for c := int(first[0]); c <= int(last[0]); c += step {
			out = append(out, string(rune(c)))
		}
		if len(out) == 0 {
			return nil, bad
		}
		return out, nil
	}
	a, err := strconv.Atoi(first)
	b, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil || a < 0 || b < a || len(first) > 9 || len(last) > 9 || (b-a)/step >= mostOfRange {
		return nil, bad
	}
	width := 0
	if strings.HasPrefix(first, "0") {
		width = len(first)
	}
	var out []string
	for n := a; n <= b; n += step {
		out = append(out, fmt.Sprintf("%0*d", width, n))
	}
	return out, nil
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
