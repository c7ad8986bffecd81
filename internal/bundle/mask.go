package bundle

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"tare/internal/env"
	"tare/internal/record"
)

// class is a sort of thing that redaction replaces.
type class string

const (
	hostNames class = "host names"
	userNames class = "user names"
	paths     class = "paths below a home directory"
	ipv4      class = "IPv4 addresses"
	ipv6      class = "IPv6 addresses"
	macs      class = "MAC addresses"
	uuids     class = "UUIDs"
	ids       class = "serial numbers and machine ids"
	words     class = "words"
)

// mask gives pseudonyms. It is told and finds names first (learn...), is sealed, and then replaces (text).
type mask struct {
	alias map[class]map[string]string // what it was, in lower case: its pseudonym
	names map[string]class            // words to be found wherever they stand, in lower case
	find  *regexp.Regexp
}

func newMask() *mask { return &mask{alias: map[class]map[string]string{}, names: map[string]class{}} }

// common are names that everybody's machine has. Replacing them would hide nothing and garble the bundle.
var common = []string{
	"localhost", "host", "guest", "vm", "box", "linux", "debian", "ubuntu", "fedora", "alpine", "arch", "tare", "(none)",
	"local", "namespace", "command", "ssh", "docker", "podman", "qemu", "container",
	"root", "user", "admin", "nobody", "daemon", "vagrant", "core", "shared", "public", "runner",
}

func (m *mask) name(c class, s string) {
	s = strings.ToLower(strings.TrimSpace(s))
	if len(s) < 2 || strings.Trim(s, "0123456789.:-") == "" {
		return // a figure or an address; as a word it would be found everywhere
	}
	if _, ok := m.names[s]; !ok {
		m.names[s] = c
	}
}

func (m *mask) host(h string) {
	h = strings.TrimSuffix(strings.TrimSpace(h), ".")
	if _, err := netip.ParseAddr(h); err == nil {
		return
	}
	if slices.Contains(common, strings.ToLower(h)) {
		return
	}
	m.name(hostNames, h)
	first, domain, _ := strings.Cut(h, ".")
	if first != h && !slices.Contains(common, strings.ToLower(first)) {
		m.name(hostNames, first)
	}
	if strings.Contains(domain, ".") {
		m.name(hostNames, domain)
	}
}

func (m *mask) user(u string) {
	if !slices.Contains(common, strings.ToLower(u)) {
		m.name(userNames, u)
	}
}

func (m *mask) word(w string) { m.name(words, w) }

// path takes a value that is a path as a whole. One with a space in it could not be told from the words around it.
func (m *mask) path(value string) {
	if at := homeRE.FindStringIndex(value); at != nil && at[0] == 0 && strings.ContainsAny(value, " \"'<>|:;,&?=()[]{}") {
		m.name(paths, value)
	}
}

// learnSpec finds whom a remote environment is reached as, and where.
func (m *mask) learnSpec(s *env.Spec) {
	m.path(s.Arg)
	for _, v := range s.Settings {
		m.path(v)
	}
	if s.Driver != "ssh" {
		return
	}
	arg := strings.TrimPrefix(s.Arg, "ssh://")
	if user, rest, ok := strings.Cut(arg, "@"); ok {
		m.user(user)
		arg = rest
	}
	if i := strings.LastIndexByte(arg, ':'); i > 0 && !strings.HasSuffix(arg, "]") {
		arg = arg[:i]
	}
	m.host(strings.Trim(arg, "[]"))
}

func (m *mask) learnFacts(f *record.Facts) {
	m.host(f.Hostname)
	m.path(f.WorkDir)
	for _, facts := range []map[string]string{f.Extra, f.Settings} {
		for name, value := range facts {
			if known(name) {
				m.name(ids, value)
			}
			m.path(value)
		}
	}
}

// learn finds the users whose home directories a text names.
func (m *mask) learn(text string) {
	for _, found := range homeRE.FindAllStringSubmatch(text, -1) {
		m.user(found[2])
	}
}

func (m *mask) learnValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		m.learn(v.String())
	case reflect.Pointer:
		if !v.IsNil() {
			m.learnValue(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			m.learnValue(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			m.learnValue(v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			m.learnValue(it.Key())
			m.learnValue(it.Value())
		}
	}
}

// A rest of a path ends where a list, a quotation or a query would go on.
const pathRest = `((?:[/\\]+[^\s"'<>|:;,&?=()\[\]{}]*)?)`

var homeRE = regexp.MustCompile(`(/home/|/Users/|[A-Za-z]:\\+Users\\+)([^/\\\s"'<>|:;,&?=()\[\]{}]+)` + pathRest)

// forms are what can be told by its look, in the order in which they are tried at one place. Group 1 is left to names.
const forms = `([0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12})` + // 2: UUID
	`|(/home/|/Users/|[A-Za-z]:\\+Users\\+)([^/\\\s"'<>|:;,&?=()\[\]{}]+)` + pathRest + // 3, 4, 5: home directory
	`|(/root)([/\\]+[^\s"'<>|:;,&?=()\[\]{}]+)` + // 6, 7: that of root
	`|((?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}|(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2})` + // 8: MAC
	`|([0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.[0-9]{1,3}){0,3})` + // 9: IPv6
	`|([0-9]{1,3}(?:\.[0-9]{1,3}){3})` + // 10: IPv4
	`|(/dev/disk/by-[a-z]+/|(?i:serial(?: ?number)?|machine[-_ ]?id)["']?\s?[=:]\s?["']?)([A-Za-z0-9_.:-]{4,})` // 11, 12: id

// seal ends learning.
func (m *mask) seal() {
	names := make([]string, 0, len(m.names))
	for n := range m.names {
		names = append(names, n)
	}
	// The longest first: a host's full name before its first part.
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	for i := range names {
		names[i] = regexp.QuoteMeta(names[i])
	}
	expr := `($.)|` // matches nothing
	if len(names) > 0 {
		expr = `((?i:` + strings.Join(names, "|") + `))|`
	}
	m.find = regexp.MustCompile(expr + forms)
}

// text replaces in any text, which need not be UTF-8. Pseudonyms are never looked at again.
func (m *mask) text(s string) string {
	var out strings.Builder
	done, at := 0, 0
	for at < len(s) {
		g := m.find.FindStringSubmatchIndex(s[at:])
		if g == nil {
			break
		}
		start, end := at+g[0], at+g[1]
		new, ok := "", false
		if bounded(s, start, end) || g[2*3] >= 0 || g[2*6] >= 0 {
			new, ok = m.replace(s[at:], g)
		}
		if !ok {
			_, n := utf8.DecodeRuneInString(s[start:])
			at = start + n
			if g[2*9] >= 0 || g[2*10] >= 0 {
				at = end // within a longer figure there is no address either
			}
			continue
		}
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

// replace gives what to put in the place of a match, whose groups are g.
func (m *mask) replace(s string, g []int) (string, bool) {
	group := func(i int) (string, bool) {
		if 2*i+1 >= len(g) || g[2*i] < 0 {
			return "", false
		}
		return s[g[2*i]:g[2*i+1]], true
	}
	if v, ok := group(1); ok {
		c := m.classOf(v)
		if c == paths {
			return "/home/" + m.give(c, v), true
		}
		return m.give(c, v), true
	}
	if v, ok := group(2); ok {
		return m.give(uuids, v), true
	}
	if base, ok := group(3); ok {
		user, _ := group(4)
		rest, _ := group(5)
		return base + m.give(m.classOf(user), user) + m.below(rest), true
	}
	if base, ok := group(6); ok {
		rest, _ := group(7)
		return base + m.below(rest), true
	}
	if v, ok := group(8); ok {
		return m.give(macs, v), true
	}
	if v, ok := group(9); ok {
		return m.address(ipv6, v)
	}
	if v, ok := group(10); ok {
		return m.address(ipv4, v)
	}
	base, _ := group(11)
	v, ok := group(12)
	return base + m.give(ids, v), ok
}

func (m *mask) classOf(name string) class {
	return cmp.Or(m.names[strings.ToLower(name)], userNames)
}

// below replaces what follows a home directory, all of it by one name.
func (m *mask) below(rest string) string {
	if strings.Trim(rest, `/\`) == "" {
		return rest
	}
	return rest[:1] + m.give(paths, rest)
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
	for _, p := range wellKnown {
		if p.Contains(a) {
			return "", false
		}
	}
	return m.give(c, v), true
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

// bounded tells whether what stands between start and end is no part of a longer word or figure.
func bounded(s string, start, end int) bool {
	wordy := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= utf8.RuneSelf
	}
	figure := func(c byte) bool { return c >= '0' && c <= '9' }
	escaped := start >= 3 && s[start-3] == '%' // as in ssh:user%40lab
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
