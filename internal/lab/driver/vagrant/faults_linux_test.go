package vagrant

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// listen puts a program in front of vagrant that notes each call, and returns what it noted.
func listen(t *testing.T) (calls func() []string) {
	t.Helper()
	real, err := proc.LookPath("vagrant")
	if err != nil {
		lack(t, "vagrant is not installed")
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	if err := os.WriteFile(filepath.Join(dir, "vagrant"), []byte("#!/bin/sh\necho \"$1\" >>'"+log+"'\nexec "+real+
		" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return func() []string {
		text, _ := os.ReadFile(log)
		return strings.Fields(string(text))
	}
}

// TestOneCallOpensAMachineThatIsUp counts the calls of Vagrant. Nothing is changed in the project, and its folders are
// what it declares.
func TestOneCallOpensAMachineThatIsUp(t *testing.T) {
	y := docker(t)
	dir := y.project(t, oneMachine)
	up(t, dir)
	calls := listen(t)
	began := time.Now()
	o := options(t, env.Spec{Arg: filepath.Join(dir, "src"), Settings: map[string]string{"up": "yes",
		"dir": "/var/tmp"}},
		env.Spec{Name: "vagrant", Driver: synced, Arg: "/vagrant"})
	e := open(t, o)
	t.Logf("opened in %v", time.Since(began).Round(10*time.Millisecond))
	conn, err := deploy.Attach(t.Context(), e, o.RunID)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("agent after %v", time.Since(began).Round(10*time.Millisecond))
	conn.Close()
	if got := calls(); !slices.Equal(got, []string{"ssh-config"}) {
		t.Errorf("vagrant was called with %v", got)
	}
	f := e.Facts()
	if f.Settings["provider"] != "docker" || f.Settings["machine"] != "default" {
		t.Errorf("facts %+v", f)
	}
	m := e.(env.Mounter).Mounts()[0]
	if m.Err != nil || m.Mount.HostDir != dir || m.Mount.Settings["type"] != "docker" {
		t.Errorf("mount %+v", m)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if got := calls(); len(got) != 1 {
		t.Errorf("vagrant was called with %v", got)
	}
	if got := y.containers(t); len(got) != 1 || !strings.HasSuffix(got[0], " running") {
		t.Errorf("containers %v", got)
	}
	own, err := declared(t.Context(), o.Spec)
	if err != nil || len(own) != 2 || own[0].Name != "srv-src" || own[1].Name != "vagrant" || own[1].Driver != synced {
		t.Errorf("declared %+v, %v", own, err)
	}
}

// TestStudyOfAProject asks which folder the project should use, as its developer would: with the study, and with the
// project's own build, as docs/vagrant.md has it.
func TestStudyOfAProject(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs tare itself")
	}
	y := docker(t)
	dir := y.project(t, oneMachine)
	write(t, filepath.Join(dir, "src", "part"), "text\n")
	// It fails where there is more than the project's sources: tare's own folders, or what the build before made.
	write(t, filepath.Join(dir, "src", "build.sh"), `set -e
cd it
test "$(ls)" = "$(printf '%s\n' build.sh part)"
for i in 1 2 3 4; do cat part part >$i; done
test $(cat 1 2 3 4 | grep -c text) = 8
`)
	up(t, dir)
	tare := os.Getenv("TARE_BIN")
	if tare == "" {
		tare = filepath.Join(t.TempDir(), "tare")
		must(t, "go", "build", "-o", tare, "tare/cmd/tare")
	}
	for _, args := range [][]string{
		{"--study", "folders", "-e", "p=vagrant", "-w", "dev.edit"},
		{"-e", "p=vagrant", "-w", "command:label=build,prepare=rm -rf it && mkdir it && tar -C /srv/src " +
			"--exclude='tare-*' -cf - . | tar -C it -xf -,command=sh it/build.sh"},
	} {
		cmd := proc.Command(t.Context(), append([]string{tare, "run", "--cards=false", "--blocks", "10", "-o",
			filepath.Join(t.TempDir(), "out")}, args...)...)
		cmd.Dir = filepath.Join(dir, "src")
		out, err := proc.RunCmd(cmd, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{"p:srv-src", "p:vagrant", "10 blocks of 3 targets"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("the report has no %s", want)
			}
		}
		if strings.Contains(string(out), "failed") {
			t.Error("a trial failed")
		}
		t.Logf("%s", out)
	}
}

// TestAMachineIsLeftAsItWasFound: one that tare made is gone, one that it started is stopped.
func TestAMachineIsLeftAsItWasFound(t *testing.T) {
	y := docker(t)
	dir := y.project(t, oneMachine)
	o := options(t, env.Spec{Arg: dir})
	_, err := opened(o)
	x, ok := errors.AsType[*env.OpenError](err)
	if !ok || !strings.Contains(x.Error(), "not created") || !strings.Contains(x.Remedy, "up=yes") {
		t.Errorf("a machine that is not up: %v", err)
	}
	o.Settings = map[string]string{"up": "yes", "provider": "docker"}
	e := open(t, o)
	if got := y.containers(t); len(got) != 1 {
		t.Errorf("containers %v", got)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if got := y.containers(t); len(got) != 0 {
		t.Errorf("containers %v", got)
	}
	up(t, dir)
	vagrant(t, dir, "halt")
	e = open(t, o)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if got := y.containers(t); len(got) != 1 || !strings.HasSuffix(got[0], " exited") {
		t.Errorf("containers %v", got)
	}
	noNotes(t)
}

// noNotes checks that nothing is left to undo.
func noNotes(t *testing.T) {
	t.Helper()
	if lines, err := clean(t.Context(), true); err != nil || len(lines) > 0 {
		t.Errorf("left to undo: %v, %v", lines, err)
	}
	base, _ := notes()
	if entries, _ := os.ReadDir(base); len(entries) > 0 {
		t.Errorf("notes %v", entries)
	}
}

// TestBadProjects: each error says what is wrong and what to do.
func TestBadProjects(t *testing.T) {
	y := docker(t)
	// Looked at when the cases, which run side by side, have ended.
	t.Cleanup(func() {
		if got := y.containers(t); len(got) != 0 {
			t.Errorf("containers %v", got)
		}
		noNotes(t)
	})
	two := "  config.vm.define(\"web\") {}\n  config.vm.define(\"db\") {}\n" + oneMachine
	for _, c := range []struct {
		name, more   string
		set          map[string]string
		says, remedy string
	}{
		{"Syntax", "  this is (not ruby\n", nil, "syntax error", "vagrant validate"},
		{"Load", "  raise 'no luck'\n", nil, "no luck", "vagrant validate"},
		{"Invalid", "  config.vm.nothing = 3\n" + oneMachine, map[string]string{"up": "yes", "provider": "docker"},
			"nothing", "vagrant validate"},
		{"TwoMachines", two, nil, "2 machines: web (not created), db (not created)", "machine=NAME"},
		{"Provider", oneMachine, map[string]string{"up": "yes", "provider": "nonesuch"}, "nonesuch", "provider=NAME"},
		{"NoLibvirtd", "  config.vm.box = 'x'\n", map[string]string{"up": "yes", "provider": "libvirt"},
			"FogLibvirtConnectionError", "libvirtd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := options(t, env.Spec{Arg: y.project(t, c.more), Settings: c.set})
			_, err := opened(o)
			x, ok := errors.AsType[*env.OpenError](err)
			if !ok || !strings.Contains(x.Error()+string(x.Evidence), c.says) || !strings.Contains(x.Remedy, c.remedy) {
				t.Fatalf("%v\n%s", err, x.Evidence)
			}
			t.Log(err)
		})
	}
}

// TestNoVagrant: what is missing is named, with the command that installs it.
func TestNoVagrant(t *testing.T) {
	o := options(t, env.Spec{})
	t.Setenv("PATH", t.TempDir())
	_, err := opened(o)
	if x, ok := errors.AsType[*env.OpenError](err); !ok || !strings.Contains(x.Remedy, "apt-get install vagrant") {
		t.Errorf("%v", err)
	}
	if s := probe(t.Context()); s.OK || s.Remedy == "" {
		t.Errorf("%+v", s)
	}
}

func (y *yard) scratchSpec(more ...string) env.Spec {
	s := env.Spec{Settings: map[string]string{"box": "sshd", "provider": "docker", "vagrantfile": y.common}}
	for _, kv := range more {
		k, v, _ := strings.Cut(kv, "=")
		s.Settings[k] = v
	}
	return s
}

// TestScratchMachine makes one with folders of several types, of which some cannot be had with Docker. The others go
// on.
func TestScratchMachine(t *testing.T) {
	y := docker(t)
	o := options(t, y.scratchSpec(), env.Spec{Name: "own", Driver: "default"},
		env.Spec{Name: "var", Driver: "dir", Arg: "/var"}, env.Spec{Name: "box", Driver: "virtualbox"},
		env.Spec{Name: "nfs", Driver: "nfs"}, env.Spec{Name: "smb", Driver: "smb"})
	e := open(t, o)
	conn, err := deploy.Attach(t.Context(), e, o.RunID)
	if err != nil {
		t.Fatal(err)
	}
	all := e.(env.Mounter).Mounts()
	if len(all) != 5 || all[0].Err != nil || all[1].Err != nil {
		t.Fatalf("mounts %+v", all)
	}
	for _, m := range all[2:] {
		if x, ok := errors.AsType[*env.OpenError](m.Err); !ok || x.Remedy == "" {
			t.Errorf("no remedy for %s: %v", m.Name, m.Err)
		}
		t.Log(m.Err)
	}
	facts, err := conn.FactsAt(t.Context(), all[0].Mount.Dir)
	if err != nil || facts.Extra["work_dir.error"] != "" || all[0].Mount.Settings["type"] != "docker" {
		t.Errorf("%v %+v %+v", err, facts.Extra, all[0].Mount)
	}
	conn.Close()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if got := y.containers(t); len(got) != 0 {
		t.Errorf("containers %v", got)
	}
	noNotes(t)
}

// TestCleanAfterKill kills the process that made a scratch machine, and lets `tare clean` find it.
func TestCleanAfterKill(t *testing.T) {
	const role = "TARE_VAGRANT_TEST_VICTIM"
	if common := os.Getenv(role); common != "" {
		os.Setenv("HOME", filepath.Dir(filepath.Dir(common))) // its own would hide the note
		y := &yard{common: common}
		if _, err := opened(options(t, y.scratchSpec())); err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(filepath.Dir(common), "made"), nil, 0o600)
		time.Sleep(time.Hour)
	}
	y := docker(t)
	made := filepath.Join(filepath.Dir(y.common), "made")
	cmd := proc.Command(t.Context(), os.Args[0], "-test.run=^TestCleanAfterKill$")
	cmd.Env = append(os.Environ(), role+"="+y.common)
	victim, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer victim.Close()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(made); err == nil {
			break
		}
		select {
		case <-victim.Done():
			t.Fatalf("the victim ended: %s", victim.Diagnose())
		default:
		}
		if time.Now().After(end) {
			t.Fatal("the victim made no machine")
		}
	}
	if lines, err := clean(t.Context(), false); err != nil || len(lines) != 0 {
		t.Fatalf("cleaned a living run's: %v, %v", lines, err)
	}
	victim.Kill()
	<-victim.Done()
	if lines, err := clean(t.Context(), true); err != nil || len(lines) != 1 || len(y.containers(t)) != 1 {
		t.Fatalf("%v, %v, %v", lines, err, y.containers(t))
	}
	lines, err := clean(context.Background(), false)
	if err != nil || len(lines) != 1 || len(y.containers(t)) != 0 {
		t.Errorf("%v, %v, %v", lines, err, y.containers(t))
	}
	t.Log(lines)
	noNotes(t)
}

// TestCancelledScratch stops the opening while Vagrant is at work: nothing is left.
func TestCancelledScratch(t *testing.T) {
	y := docker(t)
	for _, after := range []time.Duration{time.Second, 2300 * time.Millisecond, 2700 * time.Millisecond,
		4 * time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		e, err := driver{}.Open(ctx, options(t, y.scratchSpec()))
		cancel()
		if err == nil {
			e.Close() // a fast machine
		} else if _, ok := errors.AsType[*env.OpenError](err); !ok {
			t.Errorf("%v", err)
		}
		if got := y.containers(t); len(got) != 0 {
			t.Errorf("after %v: containers %v", after, got)
		}
		noNotes(t)
	}
}
