package redact

import (
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/sys/shell"
)

// learnPlan finds whom and what the plan's environments name.
func (m *mask) learnPlan(p *plan.Plan) {
	for i := range p.Beside {
		m.spareWork(p.Beside[i].Work())
	}
	for i := range p.Workloads {
		m.spareWork(&p.Workloads[i])
		for _, vary := range p.Workloads[i].Vary {
			for k := range vary {
				m.spare[strings.ToLower(k)] = true
			}
		}
	}
	for i := range p.Targets {
		e := &p.Targets[i]
		m.spare[strings.ToLower(e.Spec.Driver)] = true
		for k := range e.Spec.Settings {
			m.spare[strings.ToLower(k)] = true
		}
		if _, mount, ok := env.CutMount(e.Name); ok && e.IsMount() {
			m.mounts = append(m.mounts, "/mnt/"+mount, "/tare-mounts/"+mount, "/scratch/"+mount)
		}
	}
	for i := range p.Targets {
		m.learnSpec(&p.Targets[i].Spec)
	}
	for i := range p.Workloads {
		if w := &p.Workloads[i]; all.Named(w.Kind).Is.Server == workload.DatabaseServer {
			m.learnServer(w.Params)
		}
	}
	m.learnValue(reflect.ValueOf(p).Elem())
}

// spareWork leaves the names of a kind of work and of its parameters as they are.
func (m *mask) spareWork(w *plan.Workload) {
	for word := range strings.FieldsFuncSeq(w.Kind, func(r rune) bool { return r == '.' }) {
		m.spare[strings.ToLower(word)] = true
	}
	for k := range w.Params {
		m.spare[strings.ToLower(k)] = true
	}
}

// learnServer finds whom and what the work with a database server names. A file's name may say whose it is, and stands
// without its directory in messages.
func (m *mask) learnServer(p workload.Params) {
	m.spare["shop"] = true // what tare generates itself
	m.user(p["user"])
	words := []string{p["database"]}
	for _, k := range []string{"log", "data", "password-file", "tls-ca"} {
		for file := range strings.SplitSeq(p[k], ",") {
			file = strings.TrimRight(strings.ReplaceAll(strings.TrimSpace(file), `\`, "/"), "/")
			words = append(words, path.Base(file))
		}
	}
	for _, w := range words {
		if !m.isCommon(w) && !slices.Contains(plainLabels, strings.ToLower(w)) {
			m.word(w)
		}
	}
}

// learnSpec finds whom an environment or a mount is reached as, and where.
func (m *mask) learnSpec(s *env.Spec) {
	m.path(s.Arg)
	m.learn(s.Arg)
	for _, k := range slices.Sorted(maps.Keys(s.Settings)) {
		v := s.Settings[k]
		m.path(v)
		m.learn(v)
		names := drivers.Known().SettingOf(s.Driver, k).Names
		if names == env.NamesNothing {
			names = namesByKey[k]
		}
		m.learnNamed(names, v)
	}
	m.learnNamed(drivers.Known().Nature(s.Driver).Arg, s.Arg)
}

// namesByKey is what settings name where no row says so: those of drivers that are not known here, and, to be on the
// safe side, those whose row is silent.
var namesByKey = map[string]env.Names{
	"user": env.NamesUser, "host": env.NamesAddress, "argv": env.NamesArgv, "options": env.NamesOptions,
	"context": env.NamesInstance, "namespace": env.NamesInstance, "container": env.NamesInstance,
	"network": env.NamesInstance, "machine": env.NamesInstance,
}

// learnNamed takes an argument or a setting's value by what it names.
func (m *mask) learnNamed(names env.Names, v string) {
	switch names {
	case env.NamesUser:
		name, _, _ := strings.Cut(v, ":")
		m.user(name)
	case env.NamesInstance:
		m.instance(v)
	case env.NamesAddress:
		m.learnAddress(v)
	case env.NamesImage:
		m.learnImage(v)
	case env.NamesArgv:
		m.learnArgv(v)
	case env.NamesOptions:
		m.learnOptions(v)
	case env.NamesNothing:
	}
}

// learnAddress takes [SCHEME://][USER[:PASSWORD]@]HOST[:PORT][/PATH].
func (m *mask) learnAddress(a string) {
	if scheme, rest, ok := strings.Cut(a, "://"); ok {
		if scheme == "unix" || scheme == "npipe" {
			return
		}
		a = rest
	}
	if i := strings.LastIndexByte(a, '@'); i >= 0 {
		name, password, _ := strings.Cut(a[:i], ":")
		m.user(name)
		m.word(password)
		a = a[i+1:]
	}
	a, _, _ = strings.Cut(a, "/")
	if i := strings.LastIndexByte(a, ':'); i > 0 && !strings.HasSuffix(a, "]") {
		a = a[:i]
	}
	if h := strings.Trim(a, "[]"); nameRE.MatchString(h) {
		m.host(h)
	}
}

var nameRE = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?$`)

// learnImage takes [REGISTRY/][OWNER/]IMAGE[:TAG]. An image without an owner is the engine's library's.
func (m *mask) learnImage(image string) {
	first, rest, ok := strings.Cut(image, "/")
	if !ok || first == "library" || first == "tare" {
		return
	}
	if strings.ContainsAny(first, ".:") || first == "localhost" {
		m.learnAddress(first)
		if first, image = "", rest; public(first) {
			return
		}
	}
	image, _, _ = strings.Cut(image, "@")
	name, _, _ := strings.Cut(image, ":")
	if !m.isCommon(name) {
		m.word(name)
	}
	if first != "" {
		m.user(first)
	}
}

// programs are words of a command line that are nobody's: what reaches other systems, and what it is told to do.
var programs = []string{
	"sh", "bash", "dash", "ash", "zsh", "env", "exec", "sudo", "doas", "su", "runuser", "setpriv", "nice", "ionice",
	"chrt", "taskset", "timeout", "time",
	"stdbuf", "unshare", "nsenter", "chroot", "bwrap", "firejail", "systemd-run", "systemd-nspawn", "machinectl",
	"shell", "numactl", "setsid", "nohup",
	"nerdctl", "crictl", "ctr", "lxc", "lxc-attach", "limactl", "vagrant", "oc", "gcloud", "compute", "aws", "az",
	"mosh", "plink", "sshpass",
	"wsl.exe", "orb", "colima", "minikube", "kind", "toolbox", "distrobox", "flatpak", "enter", "attach", "start",
	"cat", "true", "qemu-user", "wine",
	"proot", "cgexec", "ip", "netns", "arch", "setarch", "linux32", "linux64", "i386", "x86_64", "aarch64",
	"podman-remote", "docker-compose", "compose",
}

// learnArgv takes a command line that leads into an environment: the names in it are of machines, users and projects.
func (m *mask) learnArgv(line string) {
	argv, err := shell.Split(line)
	if err != nil {
		argv = strings.Fields(line)
	}
	option := ""
	for _, w := range argv {
		m.path(w)
		m.learn(w)
		before := option
		option = ""
		if strings.HasPrefix(w, "-") {
			key, value, ok := strings.Cut(w, "=")
			if option = key; !ok {
				continue
			}
			before, w, option = key, value, ""
			m.path(w)
		}
		if _, value, ok := strings.Cut(w, "="); ok {
			w = value // NAME=VALUE
		}
		switch {
		case strings.ContainsAny(w, "/@ \t\n") || !nameRE.MatchString(strings.TrimSuffix(w, ":")):
			m.learnOptional(w)
		case slices.Contains([]string{"-l", "-u", "--user", "--login-name"}, before):
			m.user(w)
		case !slices.Contains(programs, strings.ToLower(path.Base(w))) && len(w) > 2:
			name, _, _ := strings.Cut(w, ":")
			m.instance(name)
		}
	}
}

// learnOptional takes a word that may be an address.
func (m *mask) learnOptional(w string) {
	if strings.Contains(w, "@") || strings.Contains(w, "://") {
		m.learnAddress(w)
	}
}

// learnOptions takes OpenSSH's: KEY=VALUE;KEY=VALUE.
func (m *mask) learnOptions(text string) {
	for option := range strings.SplitSeq(text, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(option), "=")
		switch strings.ToLower(key) {
		case "proxyjump":
			for jump := range strings.SplitSeq(value, ",") {
				m.learnAddress(jump)
			}
		case "hostkeyalias", "hostname":
			m.host(value)
		case "user":
			m.user(value)
		}
	}
}
