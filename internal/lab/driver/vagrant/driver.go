// Package vagrant drives machines of Vagrant: those of a project that exists, and scratch machines from a Vagrantfile
// that tare writes.
//
// It is opinionated about three things. Vagrant takes a second or two for each call, so a machine that is up is opened
// by one call of ssh-config, and everything else is OpenSSH's. A project belongs to its owner: it is brought up only
// when asked, and is left in the state in which it was found. And what has to be undone is written down before it is
// done, so that `tare clean` can finish what a killed run began.
package vagrant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/internal/lab/driver/ssh"
	"tare/internal/lab/env"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// Infos lists the drivers of this package.
func Infos() []env.Info {
	return []env.Info{{
		Name: "vagrant", ArgDoc: "PATH",
		Doc: "A machine of the Vagrant project in PATH (by default this folder); with box=, a scratch machine of its " +
			"own.",
		Settings: []env.Setting{
			{Name: "machine", Doc: "Machine of a project with several.", Check: checkWord,
				Names: env.NamesInstance},
			{Name: "provider", Default: "Vagrant's choice",
				Doc: "Provider: " + strings.Join(providers, ", ") + " or another plugin's.", Check: checkWord},
			{Name: "up", Default: "no", Doc: "yes: bring the project's machine up if it is not, and leave it " +
				"afterwards as it was found.", Check: env.OneOf("yes", "no")},
			{Name: "box", Doc: "Box of a scratch machine, made and destroyed; with provider=docker an image in " +
				"which sshd runs."},
			{Name: "vagrantfile", Doc: "Vagrantfile that a scratch machine's loads first.",
				Check: checkFile},
			{Name: "cpus", Default: "the provider's", Doc: "CPUs of a scratch machine.", Check: checkCPUs},
			{Name: "memory", Default: "the provider's", Doc: "Memory of a scratch machine, such as 1GiB.",
				Check: env.CheckMemory},
			{Name: "wait", Default: "15m", Doc: "How long that machine may take to come up.", Check: checkWait},
			{Name: "dir", Default: "/var/tmp, $TMPDIR, /tmp or $HOME",
				Doc: "Directory there for the agent and for file workloads.", Check: checkGuestDir},
		},
		Mounts:   mountKinds(),
		Driver:   driver{},
		Probe:    probe,
		Has:      has,
		OpenTime: openTime,
		Declared: declared,
		Clean:    clean,
	}}
}

// providers are those whose machines can be compared with one another.
var providers = []string{"virtualbox", "vmware_desktop", "libvirt", "parallels", "hyperv", "docker", "qemu"}

func checkWord(v string) error {
	if v == "" || strings.HasPrefix(v, "-") || strings.ContainsFunc(v, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_.-", r))
	}) {
		return fmt.Errorf("%q is not a name of letters, digits, dots, dashes and underscores", v)
	}
	return nil
}

func checkFile(v string) error {
	if info, err := os.Stat(v); err != nil || info.IsDir() {
		return fmt.Errorf("%q is not a file", v)
	}
	return nil
}

func checkCPUs(v string) error {
	if n, err := strconv.Atoi(v); err != nil || n < 1 || n > 1024 {
		return fmt.Errorf("%q is not a number from 1 to 1024", v)
	}
	return nil
}

func checkWait(v string) error {
	if d, err := time.ParseDuration(v); err != nil || d < time.Second || d > 24*time.Hour {
		return fmt.Errorf("%q is not a time from 1s to 24h", v)
	}
	return nil
}

func checkGuestDir(v string) error {
	if !strings.HasPrefix(v, "/") || strings.ContainsAny(v, "\n") {
		return fmt.Errorf("%q is not an absolute path", v)
	}
	return nil
}

const install = "apt-get install vagrant, or https://developer.hashicorp.com/vagrant/install"

// probe tells whether Vagrant is here. It does not ask for providers, which would take seconds.
func probe(ctx context.Context) env.Status {
	if _, err := proc.LookPath("vagrant"); err != nil {
		return env.Status{Detail: "vagrant is not installed", Remedy: install}
	}
	if _, err := proc.LookPath("ssh"); err != nil {
		return env.Status{Detail: "ssh is not installed", Remedy: "apt-get install openssh-client"}
	}
	out, err := (&tool{dir: os.TempDir()}).run(ctx, "--version")
	if err != nil {
		return env.Status{Detail: err.Error(), Remedy: install}
	}
	return env.Status{OK: true, Detail: proc.Line(string(out))}
}

// has tells whether the project of a spec is here.
func has(_ context.Context, s env.Spec) env.Status {
	if s.Get("box", "") != "" {
		return env.Status{OK: true}
	}
	if _, err := findProject(s.Arg); err != nil {
		return env.Status{Detail: err.Error(), Remedy: noProject}
	}
	return env.Status{OK: true}
}

const usualWait = 15 * time.Minute

// wait is how long bringing the spec's machine up may take.
func wait(s *env.Spec) time.Duration {
	if d, err := time.ParseDuration(s.Get("wait", "")); err == nil {
		return d
	}
	return usualWait
}

func openTime(s env.Spec) time.Duration {
	if s.Get("box", "") != "" || s.Get("up", "no") == "yes" {
		return wait(&s)
	}
	return 0
}

type driver struct{}

// Open enters the machine of a project, or makes a scratch machine.
func (driver) Open(ctx context.Context, o env.Options) (_ env.Env, err error) {
	fail := func(op string, err error, remedy string) (env.Env, error) {
		return nil, explained(o.Name, op, err, remedy)
	}
	if _, err := proc.LookPath("vagrant"); err != nil {
		return fail("find vagrant", errors.New("vagrant is not installed"), install)
	}
	m := &machine{opts: o}
	defer func() {
		if err != nil {
			// What cannot be undone now is in the note for `tare clean`; the first error matters more.
			_ = m.undo()
		}
	}()
	if err := m.find(ctx); err != nil {
		return nil, err
	}
	var configs []sshConfig
	if m.scratch == nil {
		configs, err = m.tool.sshConfig(ctx, m.name)
	}
	if configs == nil && m.raises() {
		if err := m.raise(ctx); err != nil {
			return nil, err
		}
		configs, err = m.tool.sshConfig(ctx, m.name)
	}
	if err != nil && m.rise != nil {
		return nil, m.rise
	}
	if err != nil {
		return nil, m.unreachable(ctx, err)
	}
	if len(configs) != 1 {
		return nil, m.several(ctx)
	}
	m.name = configs[0].machine
	if err := m.identify(); err != nil {
		return nil, err
	}
	if err := m.enter(ctx, configs[0].text); err != nil {
		if m.rise != nil {
			err = m.rise
		}
		return nil, err
	}
	m.checkMounts(ctx)
	return m, nil
}

// machine is an open machine of a project.
type machine struct {
	env.Env // by ssh
	opts    env.Options
	project *project
	tool    *tool
	scratch *scratch // nil for a project that was there before
	note    *note    // the changes to undo; nil if there are none
	name    string
	maker   string // the provider
	mounts  []env.Mounted
	rise    error // of a scratch machine that is up though Vagrant reported an error
	facts   record.Facts
	ssh     env.Spec
}

// find finds the project, or makes the scratch machine's.
func (m *machine) find(ctx context.Context) error {
	o := &m.opts
	if o.Get("box", "") != "" {
		if o.Arg != "" {
			return explained(o.Name, "read settings", errors.New("a project's PATH and box= exclude each other"),
				"leave out one: box= is for a scratch machine of tare's own")
		}
		return m.makeScratch(ctx)
	}
	p, err := findProject(o.Arg)
	if err != nil {
		return explained(o.Name, "find the project", err, noProject)
	}
	m.project, m.name = p, o.Get("machine", "")
	m.tool = &tool{dir: p.root}
	return nil
}

// raises tells whether the machine may be brought up.
func (m *machine) raises() bool { return m.scratch != nil || m.opts.Get("up", "no") == "yes" }

// several is the error of a project with several machines of which none was chosen.
func (m *machine) several(ctx context.Context) error {
	said := "the project has several machines"
	if all, err := m.tool.status(ctx, ""); err == nil && len(all) > 0 {
		said = fmt.Sprintf("the project has %d machines: %s", len(all), list(all))
	}
	return explained(m.opts.Name, "choose a machine", errors.New(said), "choose one with the setting machine=NAME")
}

// unreachable explains why Vagrant gives no way into a machine.
func (m *machine) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return explained(m.opts.Name, "ask vagrant how to connect", ctx.Err(), "")
	}
	x, ok := errors.AsType[*callError](err)
	if !ok || !x.notUp() {
		return explained(m.opts.Name, "ask vagrant how to connect", err, "")
	}
	all, e := m.tool.status(ctx, m.name)
	if e != nil {
		return explained(m.opts.Name, "ask vagrant for the machine's state", e, "")
	}
	if len(all) > 1 {
		return m.several(ctx)
	}
	if len(all) == 1 && all[0].provider == "docker" && all[0].state == "running" {
		return explained(m.opts.Name, "connect", fmt.Errorf("container %s has no SSH server that is reached from here",
			all[0].name), "set has_ssh and a port in the Vagrantfile, or measure it with docker?container=NAME")
	}
	state := "not up"
	if len(all) == 1 {
		state = all[0].human
	}
	return explained(m.opts.Name, "connect", fmt.Errorf("the machine is not up: %s", state),
		"bring it up with `vagrant up`, or let tare do it for the run with the setting up=yes")
}

// identify finds out which provider made the machine.
func (m *machine) identify() error {
	made := m.project.made(m.name)
	want := m.opts.Get("provider", "")
	for _, p := range made {
		if want == "" || p == want {
			m.maker = p
			return nil
		}
	}
	if want == "" || len(made) == 0 {
		return nil // of a provider that keeps nothing in the project
	}
	return explained(m.opts.Name, "choose a provider", fmt.Errorf("machine %s was made by %s, not by %s", m.name,
		strings.Join(made, ", "), want),
		"leave out provider=, or destroy the machine and bring it up with the other one")
}

// enter opens the machine by ssh, with the configuration that Vagrant gave.
func (m *machine) enter(ctx context.Context, config string) error {
	file := filepath.Join(m.opts.Dir, "ssh-config")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return explained(m.opts.Name, "write the configuration for ssh", err, "")
	}
	m.ssh = env.Spec{Name: m.opts.Name, Driver: "ssh", Arg: sshHost, Settings: map[string]string{
		// Vagrant takes every host key. Here it is at least the same one during a run.
		"config": file, "known_hosts": filepath.Join(m.opts.Dir, "known_hosts"), "host_key": "new",
	}}
	if d := m.opts.Get("dir", ""); d != "" {
		m.ssh.Settings["dir"] = d
	}
	o := m.opts
	o.Spec, o.Mounts = m.ssh, nil
	e, err := ssh.Open(ctx, o)
	if err != nil {
		x, ok := errors.AsType[*env.OpenError](err)
		if p, far := errors.AsType[*proc.ExitError](err); ok && far && p.Code == ssh.Lost {
			x.Remedy = fmt.Sprintf("see whether `vagrant ssh %s` works in %s; `vagrant reload` starts the machine anew",
				m.name, m.project.root)
		}
		return err
	}
	m.Env, m.facts = e, e.Facts()
	m.facts.Settings = map[string]string{"machine": m.name}
	maps.Copy(m.facts.Settings, m.opts.Settings)
	if m.maker != "" {
		m.facts.Settings["provider"] = m.maker
	}
	if m.facts.Extra == nil {
		m.facts.Extra = map[string]string{}
	}
	maps.Copy(m.facts.Extra, m.project.boxFacts(m.name, m.maker))
	return nil
}

// Facts has Vagrant's and ssh's facts of the machine.
func (m *machine) Facts() record.Facts { return m.facts }

// Mounts are the project's synced folders that the run asked for.
func (m *machine) Mounts() []env.Mounted { return m.mounts }

// Diagnose returns what ssh said last.
func (m *machine) Diagnose() []byte {
	if d, ok := m.Env.(env.Diagnoser); ok {
		return d.Diagnose()
	}
	return nil
}

// Close leaves the machine, and destroys it or stops it again if this run brought it up.
func (m *machine) Close() error {
	var err error
	if m.Env != nil {
		err = m.Env.Close()
		if m.note != nil {
			err = nil // of what is removed with the machine
		}
	}
	return errors.Join(err, m.undo())
}

// mebibytes is a memory setting as providers want it.
func mebibytes(v string) int64 {
	n, _ := unit.ParseSize(v) // checked with the plan
	return n >> 20
}
