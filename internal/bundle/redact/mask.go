package redact

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// class is a sort of thing that redaction replaces.
type class string

const (
	hostNames class = "host names"
	userNames class = "user names"
	paths     class = "paths"
	ipv4      class = "IPv4 addresses"
	ipv6      class = "IPv6 addresses"
	macs      class = "MAC addresses"
	uuids     class = "UUIDs"
	ids       class = "serial numbers and machine ids"
	words     class = "words"
)

// mask gives pseudonyms. It is told and finds names first (learn...), is sealed, and then replaces (text).
type mask struct {
	alias  map[class]map[string]string // what it was, in lower case: its pseudonym
	names  map[string]class            // words to be found wherever they stand, in lower case
	spare  map[string]bool             // words of tare's own, which no text makes a name
	dotted map[string]bool             // what may be a host's full name, should its domain turn out to be one
	mounts []string                    // directories that tare makes in a guest for the plan's mounts
	find   *regexp.Regexp
	// The same words come in each trial: learnt are texts that were learnt from, masked are those that were replaced
	// in.
	learnt map[string]bool
	masked map[string]string
}

// What a hostile bundle may make this remember: how many texts, and how long they are in bytes.
const (
	mostKept    = 1 << 16
	longestKept = 128
)

func newMask() *mask {
	return &mask{alias: map[class]map[string]string{}, names: map[string]class{}, spare: map[string]bool{},
		dotted: map[string]bool{}, learnt: map[string]bool{}, masked: map[string]string{}}
}

// forms are what can be told by its look, in the order in which they are tried at one place. Group 1 is left to names.
const forms = `([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})` + // 2: UUID
	`|(/home/|/Users/|[A-Za-z]:\\+Users\\+)([^/\\\s"'<>|:;,&?=()\[\]{}]+)` + pathRest + // 3, 4, 5: home directory
	`|(/root|~)([/\\]+[^\s"'<>|:;,&?=()\[\]{}]+)` + // 6, 7: that of root, or of whoever it was
	// 8: MAC
	`|((?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}|(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}|(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4})` +
	`|([0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.[0-9]{1,3}){0,3})` + // 9: IPv6
	`|([0-9]{1,3}(?:\.[0-9]{1,3}){3})` + // 10: IPv4
	// 11, 12: id
	`|(/dev/disk/by-[a-z]+/|(?:PART)?(?:UUID|LABEL)["']?=["']?|(?i:serial(?: ?number)?|machine[-_ ]?id)["']?\s?[=:]\s?["']?)([A-Za-z0-9_.:-]{2,})` +
	`|([A-Za-z]:[\\/]+[^\s"'<>|:;,&?=()\[\]{}]+|/+[^\s"'<>|:;,&?=()\[\]{}]+)` // 13: path

// seal ends learning.
func (m *mask) seal() {
	m.domains()
	names := make([]string, 0, len(m.names))
	for n := range m.names {
		names = append(names, n)
	}
	// The longest first: a host's full name before its first part.
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	var full, plain []string
	for _, n := range names {
		if m.names[n] == hostNames && strings.Contains(n, ".") {
			full = append(full, regexp.QuoteMeta(n))
		} else {
			plain = append(plain, regexp.QuoteMeta(n))
		}
	}
	expr := `($.)|`    // matches nothing
	if len(full) > 0 { // with whatever is in the domain
		plain = append([]string{`(?:[a-z0-9_-]+\.)*(?:` + strings.Join(full, "|") + `)`}, plain...)
	}
	if len(plain) > 0 {
		expr = `((?i:` + strings.Join(plain, "|") + `))|`
	}
	m.find = regexp.MustCompile(expr + forms)
}

// text replaces in any text, which need not be UTF-8. Pseudonyms are never looked at again.
func (m *mask) text(s string) string {
	out, ok := m.masked[s]
	if !ok {
		out = m.replaced(s)
		if len(s) <= longestKept && len(m.masked) < mostKept {
			m.masked[s] = out
		}
	}
	return out
}

func (m *mask) replaced(s string) string {
	var out strings.Builder
	done, at := 0, 0
	for at < len(s) {
		g := m.find.FindStringSubmatchIndex(s[at:])
		if g == nil {
			break
		}
		start, end := at+g[0], at+g[1]
		new, used, ok := "", 0, false
		if bounded(s, start, end) || g[2*3] >= 0 || g[2*6] >= 0 {
			new, used, ok = m.replace(s, at, g)
		}
		if !ok {
			_, n := utf8.DecodeRuneInString(s[start:])
			at = start + n
			if g[2*9] >= 0 || g[2*10] >= 0 {
				at = end // within a longer figure there is no address either
			}
			continue
		}
		end = start + used
		out.WriteString(s[done:start])
		out.WriteString(new)
		done, at = end, end
	}
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

// replace gives what to put in the place of a match, whose groups g count from at, and how much of the match that is
// for.
func (m *mask) replace(s string, at int, g []int) (new string, used int, ok bool) {
	group := func(i int) (string, bool) {
		if 2*i+1 >= len(g) || g[2*i] < 0 {
			return "", false
		}
		return s[at+g[2*i] : at+g[2*i+1]], true
	}
	used = g[1] - g[0]
	if v, ok := group(1); ok {
		switch c := m.classOf(v, hostNames); {
		case c != paths:
			return m.give(c, v), used, true
		case homeRE.MatchString(v):
			return "/home/" + m.give(c, v), used, true
		default:
			return "/" + m.give(c, v), used, true
		}
	}
	if v, ok := group(2); ok {
		return m.give(uuids, v), used, true
	}
	if base, ok := group(3); ok {
		user, _ := group(4)
		rest, _ := group(5)
		below, left := m.below(rest)
		return base + m.give(m.classOf(user, userNames), user) + below, used - left, true
	}
	if base, ok := group(6); ok {
		rest, _ := group(7)
		if base == "~" && !pathBegins(s, at+g[0]) {
			return "", 0, false
		}
		below, left := m.below(rest)
		return base + below, used - left, true
	}
	if v, ok := group(8); ok {
		return m.give(macs, v), used, !strings.Contains(v, ".") || strings.ContainsAny(v, "abcdefABCDEF")
	}
	if v, ok := group(9); ok {
		if _, err := netip.ParseAddr(v); err != nil && strings.HasSuffix(v, ":") { // as in "fe80::1: refused"
			v, used = v[:len(v)-1], used-1
		}
		if end := at + g[0] + used; strings.HasSuffix(v, ":") && end < len(s) && wordy(s[end]) { // $1::text is a cast
			return "", 0, false
		}
		new, ok := m.address(ipv6, v)
		return new, used, ok
	}
	if v, ok := group(10); ok {
		new, ok := m.address(ipv4, v)
		return new, used, ok
	}
	if v, ok := group(12); ok {
		if strings.HasPrefix(v, "tare-") || strings.HasPrefix(v, "virtio-tare-") { // a guest's disk, which tare named
			return "", 0, false
		}
		base, _ := group(11)
		c := ids
		if uuidRE.MatchString(v) {
			c = uuids
		}
		return base + m.give(c, v), used, true
	}
	v, _ := group(13)
	return m.absolute(s, at+g[0], v)
}

func (m *mask) classOf(name string, otherwise class) class {
	return cmp.Or(m.names[strings.ToLower(name)], otherwise)
}

// wellKnown are networks that say nothing of anybody: loopback, QEMU's own, and what is no host.
var wellKnown = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("255.0.0.0/8"),
	netip.MustParsePrefix("10.0.2.0/24"), netip.MustParsePrefix("::/127"), netip.MustParsePrefix("fec0::/64"),
}

func (m *mask) address(c class, v string) (string, bool) {
	a, err := netip.ParseAddr(v)
	if err != nil {
		return "", false
	}
	if isWellKnown(a) {
		return "", false
	}
	return m.give(c, v), true
}

func isWellKnown(a netip.Addr) bool {
	return slices.ContainsFunc(wellKnown, func(p netip.Prefix) bool { return p.Contains(a) })
}

// give returns the pseudonym of v, a new one when it has none. Addresses are from the ranges kept for documentation and
// benchmarks: RFC 5737 and 2544, RFC 3849, RFC 7042.
func (m *mask) give(c class, v string) string {
	v = strings.ToLower(v)
	if m.alias[c] == nil {
		m.alias[c] = map[string]string{}
	}
	if a, ok := m.alias[c][v]; ok {
		return a
	}
	n := len(m.alias[c]) + 1
	a := ""
	switch c {
	case hostNames:
		a = fmt.Sprintf("anon-host-%d", n)
	case userNames:
		a = fmt.Sprintf("anon-user-%d", n)
	case paths:
		a = fmt.Sprintf("anon-path-%d", n)
	case ipv4:
		a = fmt.Sprintf("192.0.2.%d", n)
		if n > 254 {
			a = fmt.Sprintf("198.%d.%d.%d", 18+n>>16&1, n>>8&255, n&255)
		}
	case ipv6:
		a = fmt.Sprintf("2001:db8::%x", n)
	case macs:
		a = fmt.Sprintf("00:00:5e:00:53:%02x", n)
		if n > 255 {
			a = fmt.Sprintf("02:00:00:%02x:%02x:%02x", n>>16&255, n>>8&255, n&255)
		}
	case uuids:
		a = fmt.Sprintf("00000000-0000-4000-8000-%012x", n)
	case ids:
		a = fmt.Sprintf("anon-id-%d", n)
	default:
		a = fmt.Sprintf("anon-word-%d", n)
	}
	m.alias[c][v] = a
	return a
}

// hostname replaces the name in the one place that is for it, also when it is too common to be looked for elsewhere.
func (m *mask) hostname(h string) string {
	if slices.Contains(common, strings.ToLower(h)) {
		return m.give(hostNames, h)
	}
	return h
}

func (m *mask) counts() map[string]int {
	out := map[string]int{}
	for c, all := range m.alias {
		if len(all) > 0 {
			out[string(c)] = len(all)
		}
	}
	return out
}

// wordy tells whether a byte is one of a word's.
func wordy(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= utf8.RuneSelf
}

// escapeRE is the end of what a terminal or a quotation puts before a word: colours, as sent and as tare writes them
// down, and a line's end.
var escapeRE = regexp.MustCompile(`(?:(?:\x1b|\\x1b|\\u001b|\\033|\^\[)(?:\[[0-9;?]*[A-Za-z])?|\\x[0-9a-f]{2}|\\[nrt])$`)

// bounded tells whether what stands between start and end is no part of a longer word or figure.
func bounded(s string, start, end int) bool {
	figure := func(c byte) bool { return c >= '0' && c <= '9' }
	// as in ssh:user%40lab
	escaped := start >= 3 && s[start-3] == '%' || escapeRE.MatchString(s[max(0, start-16):start])
	if start > 0 && wordy(s[start-1]) && wordy(s[start]) && !escaped {
		return false
	}
	if end < len(s) && wordy(s[end]) && wordy(s[end-1]) {
		return false
	}
	// 1.2.3.4.5, 6.1.0.23-amd64 and v-1.2.3.4 are versions.
	if !figure(s[start]) || !figure(s[end-1]) || strings.Trim(s[start:end], "0123456789.") != "" {
		return true
	}
	if start > 0 && (s[start-1] == '.' || s[start-1] == '-') {
		return false
	}
	return end+1 >= len(s) || !(s[end] == '-' || s[end] == '.' && figure(s[end+1]))
}
