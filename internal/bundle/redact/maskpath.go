package redact

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// A rest of a path ends where a list, a quotation or a query would go on.
const pathRest = `((?:[/\\]+[^\s"'<>|:;,&?=()\[\]{}]*)?)`

var homeRE = regexp.MustCompile(`(/home/|/Users/|[A-Za-z]:\\+Users\\+)([^/\\\s"'<>|:;,&?=()\[\]{}]+)` + pathRest)

// madeRE is a directory that tare made, for a run or in a target. What is below it tare named.
var madeRE = regexp.MustCompile(`[/\\]tare-(?:[a-z]+-)*[0-9a-f]{6,}(?:-[0-9]+)?(?:[/\\]|$)`)

// systemDirs hold the system: what is below them is on every machine.
var systemDirs = []string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/proc", "/sys", "/dev", "/boot", "/run",
	"/var/run",
	"/init", "/modules", "/nix/store", "/System", "/Applications", "/tare-work", "/tare-mounts", "/tare-agent",
	"/opt/tare",
	"c:/windows", "c:/program files",
}

// openDirs are on every machine too, but what is below them is somebody's.
var openDirs = []string{
	"/tmp", "/var", "/var/tmp", "/var/lib", "/var/cache", "/var/log", "/var/spool", "/var/opt", "/mnt", "/media",
	"/srv", "/opt", "/root",
	"/home", "/dev/shm", "/dev/mapper", "/run/user", "/run/media", "/run/mount", "/usr/src", "/usr/home", "/usr/local",
	"/scratch", "/share",
	"/var/lib/docker", "/var/lib/containers", "/var/lib/containerd", "/var/lib/libvirt", "/private/tmp", "/private/var",
	"/Volumes", "/snap",
}

// plainDirs are again the system's, below those that are not.
var plainDirs = []string{
	"/usr/local/bin", "/usr/local/sbin", "/usr/local/lib", "/usr/local/lib64", "/usr/local/libexec", "/usr/local/share",
	"/usr/local/go",
	"/snap/bin",
}

// under tells whether a path is a directory of the list or below it, and returns the longest that is.
func under(path string, dirs []string) (dir string) {
	for _, d := range dirs {
		if len(d) > len(dir) && len(path) >= len(d) && strings.EqualFold(path[:len(d)], d) &&
			(len(path) == len(d) || path[len(d)] == '/') {
			dir = d
		}
	}
	return dir
}

// readable is how much of a path, with slashes, says nothing of anybody.
func (m *mask) readable(path string) int {
	system, open := under(path, append(plainDirs, systemDirs...)), under(path, append(m.mounts, openDirs...))
	if len(system) > len(open) && !oddDevice(path) {
		return len(path)
	}
	return len(open)
}

// oddDevice tells whether a path below /dev has a name in it that somebody gave: a volume group.
func oddDevice(path string) bool {
	rest, ok := strings.CutPrefix(path, "/dev/")
	dir, _, deep := strings.Cut(rest, "/")
	return ok && deep && !slices.Contains([]string{"disk", "fd", "pts", "net", "input", "snd", "bus", "block", "char",
		"cpu", "dri", "vfio", "mqueue", "hugepages", "infiniband", "virtio-ports"}, dir)
}

// pathBegins tells whether a path that begins at start is absolute, and not the end of a longer or relative one.
func pathBegins(s string, start int) bool {
	if start == 0 || escapeRE.MatchString(s[max(0, start-16):start]) {
		return true
	}
	if portRE.MatchString(s[max(0, start-128):start]) {
		return true
	}
	c := s[start-1]
	return strings.IndexByte("./\\~+-_*<)%$@^", c) < 0 && !wordy(c)
}

// portRE is what stands before the path of a URL that names a port.
var portRE = regexp.MustCompile(`//[^\s"'/]+:[0-9]{1,5}$`)

// absolute replaces a path that stands at start in s, as far as it is not readable. The path's end that tare named is
// left to be looked at for names.
func (m *mask) absolute(s string, start int, v string) (new string, used int, ok bool) {
	v = strings.TrimRight(v, ".")
	if !pathBegins(s, start) || strings.Trim(v, `/\`) == "" {
		return "", 0, false
	}
	flat := strings.ReplaceAll(v, `\`, "/")
	if name, ok := strings.CutPrefix(flat, "//"); ok && !strings.HasPrefix(name, "/") {
		return m.authority(s, start, v)
	}
	drive := 0
	if flat[0] != '/' {
		if !strings.Contains(v[:3], `\`) && !strings.HasPrefix(v[2:], "/") {
			return "", 0, false
		}
		drive = 2
	}
	lead := drive + len(flat[drive:]) - len(strings.TrimLeft(flat[drive:], "/"))
	path := flat[:drive] + "/" + flat[lead:] // with one slash at its beginning
	keep := lead - drive - 1 + m.readable(path)
	if keep >= len(v) || strings.Trim(flat[keep:], "/") == "" {
		return "", 0, false
	}
	if keep < lead {
		keep = lead - 1
	}
	below, left := m.below(v[keep:])
	return v[:keep] + below, len(v) - left, below != ""
}

// authority replaces what is between two slashes and the next: //HOST/SHARE, and SCHEME://USER@HOST/PATH.
func (m *mask) authority(s string, start int, v string) (new string, used int, ok bool) {
	host, rest := v[2:], ""
	if i := strings.IndexAny(host, `/\`); i >= 0 {
		host, rest = host[:i], host[i:]
	}
	user, at := "", ""
	if u, h, ok := strings.Cut(host, "@"); ok {
		user, at, host = m.text(u), "@", h
	}
	switch a, err := netip.ParseAddr(host); {
	case err == nil && !isWellKnown(a):
		host, _ = m.address(ipv4, host)
	case err == nil:
		if rest == "/share" || rest == "" { // what tare's own servers export
			return "", 0, false
		}
	case public(host):
		return v, len(v), true
	case slices.Contains(common, strings.ToLower(host)), strings.HasPrefix(host, "%"):
	default:
		host = m.give(m.classOf(host, hostNames), host)
	}
	below, left := m.below(rest)
	return v[:2] + user + at + host + below, len(v) - left, true
}

// below replaces what follows a directory that is known, all of it by one name, up to where tare made a directory; left
// is the length of that end.
func (m *mask) below(rest string) (new string, left int) {
	if strings.Trim(rest, `/\`) == "" {
		return rest, 0
	}
	made := len(rest)
	if at := madeRE.FindStringIndex(rest); at != nil {
		made = at[0]
	}
	if made == 0 {
		return "", len(rest)
	}
	return rest[:1] + m.give(paths, rest[:made]), len(rest) - made
}

// path takes a value that is a path as a whole. One with a space in it could not be told from the words around it.
func (m *mask) path(value string) {
	flat := strings.ReplaceAll(value, `\`, "/")
	if at := madeRE.FindStringIndex(flat); at != nil {
		value, flat = value[:at[0]], flat[:at[0]]
	}
	windows := len(flat) > 3 && flat[1] == ':' && flat[2] == '/'
	if !windows && !strings.HasPrefix(flat, "/") || strings.ContainsAny(value, "\n\x00") {
		return
	}
	inner := value
	if windows {
		inner = value[2:]
	}
	if strings.ContainsAny(inner, " \"'<>|:;,&?=()[]{}") && m.readable(flat) < len(flat) {
		m.name(paths, value)
	}
}
