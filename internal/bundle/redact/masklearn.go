package redact

import (
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/record"
)

// common are names that everybody's machine has. Replacing them would hide nothing and garble the bundle.
var common = []string{
	"localhost", "host", "guest", "vm", "box", "linux", "debian", "ubuntu", "fedora", "alpine", "arch", "tare",
	"(none)",
	"local", "namespace", "command", "ssh", "docker", "podman", "qemu", "vagrant", "container", "kubectl", "lima",
	"wsl",
	"multipass", "incus",
	"root", "user", "admin", "nobody", "daemon", "vagrant", "core", "shared", "public", "runner", "git", "postgres",
	"www-data",
	"default", "kube-system", "none", "auto", "own", "yes", "no", "bridge", "unix", "npipe", "tcp", "http", "https",
	"nfs", "smb", "sftp",
	"dir", "file", "path", "bind", "tmpfs", "disk", "share", "null", "unknown", "true", "false", "latest", "sha256",
	"error", "errno", "failed", "warning", "read", "write", "open", "stat", "mkdir", "mount", "exec", "run", "from",
	"to", "at", "in",
	"directory", "folder", "source", "target", "image", "kernel", "initrd", "log", "last", "invalid", "login",
	"password",
}

// publicDomains are where everybody's software comes from.
var publicDomains = []string{
	"debian.org", "ubuntu.com", "kernel.org", "fedoraproject.org", "redhat.com", "centos.org", "archlinux.org",
	"alpinelinux.org", "suse.com",
	"suse.de", "opensuse.org", "freebsd.org", "apple.com", "microsoft.com", "docker.io", "docker.com", "quay.io",
	"ghcr.io", "gcr.io", "k8s.io",
	"kubernetes.io", "github.com", "gitlab.com", "launchpad.net", "qemu.org", "libvirt.org", "seabios.org",
	"openssh.com", "libssh.org", "samba.org",
	"postgresql.org", "python.org", "golang.org", "go.dev", "gnu.org", "freedesktop.org", "sourceforge.net",
	"lima-vm.io", "w3.org",
	"json-schema.org", "sqlite.org", "systemd.io", "lwn.net", "intel.com", "amd.com",
}

// public tells whether a host is known to everybody.
func public(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(publicDomains, func(d string) bool {
		return host == d ||
			strings.HasSuffix(host, "."+d)
	})
}

// plainLabels are parts of a host's full name that say nothing of whose it is.
var plainLabels = []string{
	"www", "mail", "git", "ftp", "lab", "corp", "home", "office", "prod", "staging", "test", "dev", "internal",
	"intern", "intranet", "local", "lan",
	"private", "cloud", "compute", "example", "invalid", "com", "net", "org", "edu", "gov", "localdomain", "node",
	"server", "host", "svc", "cluster",
}

// name makes a word one to be found wherever it stands.
func (m *mask) name(c class, s string) {
	s = strings.ToLower(strings.TrimSpace(s))
	if len(s) < 2 {
		return
	}
	// A figure or an address would be found everywhere as a word, unless it is long enough to be an id and nothing
	// else.
	if strings.Trim(s, "0123456789.:-") == "" && (c != ids && c != macs || len(s) < 6) {
		return
	}
	if _, ok := m.names[s]; !ok {
		m.names[s] = c
	}
}

func (m *mask) isCommon(s string) bool {
	s = strings.ToLower(s)
	return slices.Contains(common, s) || m.spare[s]
}

// host takes a host's name, full or not, and learns what else its parts are found by.
func (m *mask) host(h string) {
	h = strings.TrimSuffix(strings.TrimSpace(h), ".")
	if _, err := netip.ParseAddr(h); err == nil || m.isCommon(h) || public(h) {
		return
	}
	m.name(hostNames, h)
	labels := strings.Split(h, ".")
	if len(labels) == 1 {
		return
	}
	for i, l := range labels[:len(labels)-1] {
		if i == 0 && !m.isCommon(l) || len(l) > 3 && !m.isCommon(l) &&
			!slices.Contains(plainLabels, strings.ToLower(l)) {
			m.name(hostNames, l)
		}
		// The domains that it is in, but for co.uk and its like.
		if domain := strings.Join(labels[i+1:], "."); len(labels)-i > 2 && !countryRE.MatchString(domain) {
			m.name(hostNames, domain)
		}
	}
}

var countryRE = regexp.MustCompile(`(?i)^(?:co|com|org|net|ac|gov|edu|or|ne)\.[a-z]{2}$`)

func (m *mask) user(u string) {
	if !m.isCommon(u) {
		m.name(userNames, u)
	}
}

func (m *mask) word(w string) { m.name(words, w) }

// instance takes what a person called a machine, a pod or a cluster, where a setting is for that.
func (m *mask) instance(s string) {
	m.learn(s)
	if s != "" && !m.isCommon(s) && !strings.HasPrefix(s, "/") {
		m.host(s)
	}
}

// spareGiven spares the host names that tare gave: a namespace and a micro-VM are called as their environment is in the
// plan. Where another host has that name too, it is a name to hide.
func (m *mask) spareGiven(all []record.Environment) {
	ours := map[string]bool{}
	for i := range all {
		s, err := env.ParseSpec("x=" + all[i].Spec)
		ours[all[i].Name] = err == nil && all[i].Mount == nil && drivers.Known().Nature(s.Driver).HostName
	}
	given, others := map[string]bool{}, map[string]bool{}
	for i := range all {
		in, _, _ := strings.Cut(all[i].Name, ":") // a mount is in one
		for _, host := range []string{all[i].Inside.Hostname, all[i].Outside.Hostname} {
			if ours[in] && host == in {
				given[strings.ToLower(host)] = true
			} else {
				others[strings.ToLower(host)] = true
			}
		}
	}
	for name := range given {
		m.spare[name] = m.spare[name] || !others[name]
	}
}

func (m *mask) learnEnvironment(e *record.Environment) {
	if s, err := env.ParseSpec("x=" + e.Spec); err == nil {
		m.learnSpec(&s)
	}
	m.learnFacts(&e.Inside)
	m.learnFacts(&e.Outside)
	if e.Mount != nil {
		m.path(e.Mount.Dir)
		m.path(e.Mount.HostDir)
		m.learnSource(e.Mount.Source)
		for _, k := range slices.Sorted(maps.Keys(e.Mount.Settings)) {
			m.path(e.Mount.Settings[k])
		}
	}
	m.learnValue(reflect.ValueOf(e).Elem())
}

// learnSource takes what the kernel shows as a mount's source: HOST:/PATH, //HOST/SHARE or USER@HOST:PATH for one of a
// network.
func (m *mask) learnSource(source string) {
	switch name, unc := strings.CutPrefix(source, "//"); {
	case unc:
		m.learnAddress(name)
	case strings.Contains(source, ":") && !strings.HasPrefix(source, "/"):
		m.learnAddress(source)
	}
}

func (m *mask) learnFacts(f *record.Facts) {
	m.host(f.Hostname)
	m.path(f.WorkDir)
	for _, facts := range []map[string]string{f.Extra, f.Settings} {
		for _, name := range slices.Sorted(maps.Keys(facts)) {
			value := facts[name]
			switch name = strings.ToLower(name); {
			case known(name):
				m.name(ids, value)
			case strings.HasSuffix(name, "mac") || strings.Contains(name, "hwaddr") ||
				strings.Contains(name, "mac_address"):
				if bareMacRE.MatchString(value) {
					m.name(macs, value)
				}
			case strings.HasSuffix(name, "source"):
				m.learnSource(value)
			case strings.HasSuffix(name, "hostname") || strings.HasSuffix(name, "nodename"):
				m.host(value)
			}
			m.path(value)
		}
	}
}

const hostPart = `([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)`

var (
	uuidRE    = regexp.MustCompile(`^[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$`)
	bareMacRE = regexp.MustCompile(`^[0-9A-Fa-f]{12}$`)
	userRE    = regexp.MustCompile(`([A-Za-z0-9_](?:[A-Za-z0-9._+-]*[A-Za-z0-9_])?)(?::([^\s@/:"']+))?(?:@|%40)` +
		hostPart)
	urlRE     = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://(?:[^\s/@"']+@)?` + hostPart)
	exportRE  = regexp.MustCompile(`(?:^|[\s"'=,(\[])([A-Za-z][A-Za-z0-9.-]*[A-Za-z0-9]):/[^\s/:]`)
	uncRE     = regexp.MustCompile(`(?:^|[\s"'=,(\[])//` + hostPart + `/`)
	kernelRE  = regexp.MustCompile(`\bip=[^\s:]*(?::[^\s:]*){3}:([A-Za-z0-9][A-Za-z0-9.-]*)`)
	calledRE  = regexp.MustCompile(`(?i)(?:\b(?:hostname|nodename|computername)["']?\s*[:=]\s*["']?|hostname to <?)([a-z0-9][a-z0-9.-]*)`)
	loginRE   = regexp.MustCompile(`(?im)(?:^|[\r\n])\s*([a-z0-9][a-z0-9.-]*) login:[ \t]*([a-z_][a-z0-9._-]*)?`)
	whoRE     = regexp.MustCompile(`(?i)\b(?:user|username|logname|sudo_user)=["']?([a-z_][a-z0-9._-]*)`)
	mediaRE   = regexp.MustCompile(`/media/([^/\\\s"'<>|:;,&?=()\[\]{}]+)`)
	macRE     = regexp.MustCompile(`(?i)(?:\bmac(?:addr|_address| address)?|\bhwaddr|\bether|\bbootif)["']?[ \t]*[=: ][ \t]*["']?(?:01-)?([0-9a-f]{12})\b`)
	qemuMacRE = regexp.MustCompile(`(?i)\b(525400[0-9a-f]{6})\b`)
	dottedRE  = regexp.MustCompile(`[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+`)
	// Domains that are nobody's else than who uses them, and those of the public that no file's name ends in.
	privateRE = regexp.MustCompile(`(?i)\.(?:lan|local|home|internal|intranet|intern|corp|private|localdomain|home\.arpa|test|example|invalid)$`)
	globalRE  = regexp.MustCompile(`(?i)(?:\.(?:com|net|org|edu|gov|mil|info|biz|eu|cloud)|\.[a-z0-9-]+\.(?:io|de|uk|fr|nl|ch|it|es|pl|se|fi|dk|cz|ru|cn|jp|kr|br|ca|au|us|dev|app|in|at|be|no))$`)
	unquoteRE = regexp.MustCompile(`(?:\x1b|\\x1b|\\u001b|\\033|\^\[)(?:\[[0-9;?]*[A-Za-z])?|\\x[0-9a-f]{2}|\\[nrt]`)
)

// learn finds the names that a text tells by their place: of users before an @ or in a home directory, of hosts behind
// it.
func (m *mask) learn(text string) {
	if m.learnt[text] {
		return
	}
	if len(text) <= longestKept && len(m.learnt) < mostKept {
		m.learnt[text] = true
	}
	m.learnForms(text)
	if strings.ContainsAny(text, "\\\x1b^") {
		if plain := unquoteRE.ReplaceAllString(text, "\n"); plain != text {
			m.learnForms(plain)
		}
	}
}

func (m *mask) learnForms(text string) {
	for _, found := range homeRE.FindAllStringSubmatch(text, -1) {
		m.user(found[2])
	}
	for _, found := range mediaRE.FindAllStringSubmatch(text, -1) {
		m.user(found[1])
	}
	for _, found := range userRE.FindAllStringSubmatch(text, -1) {
		m.account(found[1], found[2], found[3])
	}
	for _, re := range []*regexp.Regexp{urlRE, exportRE, uncRE, kernelRE, calledRE} {
		for _, found := range re.FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(found[1], "2F") {
				m.textHost(found[1])
			}
		}
	}
	for _, found := range loginRE.FindAllStringSubmatch(text, -1) {
		m.textHost(found[1])
		m.user(found[2])
	}
	for _, found := range whoRE.FindAllStringSubmatch(text, -1) {
		m.user(found[1])
	}
	for _, re := range []*regexp.Regexp{macRE, qemuMacRE} {
		for _, found := range re.FindAllStringSubmatch(text, -1) {
			m.name(macs, found[1])
		}
	}
	for _, found := range dottedRE.FindAllString(text, -1) {
		if len(m.dotted) < mostKept &&
			strings.ContainsAny(found, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			m.dotted[found] = true
		}
	}
}

// account takes USER[:PASSWORD]@HOST as it stands in a text, unless it is something else that is written so: an image
// and its digest, a unit of systemd's, a cipher of OpenSSH's, a package and its version.
func (m *mask) account(user, password, host string) {
	_, err := netip.ParseAddr(host)
	letter := host[0] > '9'
	switch {
	case public(host), host == "sha256", err != nil && !letter && !strings.Contains(host, "-"),
		strings.HasPrefix(host, "tty"):
		return
	}
	for _, suffix := range []string{".service", ".socket", ".target", ".mount", ".slice", ".timer", ".path"} {
		if strings.HasSuffix(host, suffix) {
			return
		}
	}
	if strings.Trim(user, "0123456789.") != "" {
		m.user(user)
	}
	if password != "" && !m.isCommon(password) {
		m.word(password)
	}
	m.textHost(host)
}

// textHost takes a host's name from a text, where a version may stand in its place.
func (m *mask) textHost(h string) {
	if strings.ContainsAny(h, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") && len(h) > 1 {
		m.host(h)
	}
}

// domains makes hosts of the full names that were seen and are in a domain that is known by now, or that cannot be
// anything else.
func (m *mask) domains() {
	for range 4 {
		before := len(m.names)
		for _, d := range slices.Sorted(maps.Keys(m.dotted)) {
			if !public(d) && (privateRE.MatchString(d) || globalRE.MatchString(d) || m.inDomain(d)) {
				m.host(d)
			}
		}
		if len(m.names) == before {
			return
		}
	}
}

func (m *mask) inDomain(name string) bool {
	for rest := strings.ToLower(name); ; {
		_, domain, ok := strings.Cut(rest, ".")
		if !ok || !strings.Contains(domain, ".") {
			return false
		}
		if m.names[domain] == hostNames {
			return true
		}
		rest = domain
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
		keys := v.MapKeys()
		// In a fixed order: what a name is first taken for, it stays.
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			m.learnValue(k)
			m.learnValue(v.MapIndex(k))
		}
	}
}
