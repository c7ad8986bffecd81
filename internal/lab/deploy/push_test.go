package deploy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/sys/proc"
)

// here is a transport to this machine. Commands run as they are, or a script answers instead.
type here struct {
	dir    string
	mode   os.FileMode
	script string // replaces uname
}

func (h here) Command(ctx context.Context, argv ...string) *proc.Cmd {
	if h.script != "" && !filepath.IsAbs(argv[0]) {
		return proc.Command(ctx, append([]string{"sh", "-c", h.script}, argv...)...)
	}
	return proc.Command(ctx, argv...)
}

func (h here) Put(_ context.Context, name string, r io.Reader) (string, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	path := filepath.Join(h.dir, name)
	return path, os.WriteFile(path, b, h.mode)
}

func TestPushPutsAWorkingAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the agent")
	}
	path, p, err := deploy.Push(within(t, patience), here{dir: t.TempDir(), mode: 0o700}, agenttest.Store(t),
		deploy.PushOptions{})
	if err != nil || p != (deploy.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}) {
		t.Fatalf("%s, %v, %v", path, p, err)
	}
	s, err := deploy.Connect(within(t, patience), launch(t, path, "agent", "--dir", t.TempDir()), "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestPushThatFails(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("#!/bin/sh\necho tare-agent 9.9 build cafe linux/amd64\n"),
		0o700); err != nil {
		t.Fatal(err)
	}
	mute := filepath.Join(t.TempDir(), "mute")
	if err := os.WriteFile(mute, []byte("#!/bin/sh\necho hello\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		t       here
		agent   string
		message string
	}{
		"32 bits":      {here{script: "echo Linux armv7l"}, self, "32-bit"},
		"odd machine":  {here{script: "echo Linux s390x"}, self, "Linux s390x"},
		"odd system":   {here{script: "echo SunOS i86pc"}, self, "SunOS"},
		"says nothing": {here{script: "exit 0"}, self, "printed nothing"},
		"refuses": {here{script: "echo kex_exchange_identification >&2; exit 255"}, self,
			"kex_exchange_identification"},
		"never stops":    {here{script: "exec yes Linux"}, self, "no answer within"},
		"hangs":          {here{script: "exec sleep 600"}, self, "no answer within"},
		"another build":  {here{script: "echo Linux x86_64", mode: 0o700}, other, `build "cafe"`},
		"no agent":       {here{script: "echo Linux x86_64", mode: 0o700}, mute, "is not an agent"},
		"not executable": {here{script: "echo Linux x86_64", mode: 0o600}, self, "noexec"},
		"not carried":    {here{script: "echo Darwin arm64"}, self, "no agent for darwin/arm64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.t.dir = t.TempDir()
			store := deploy.NewStore(t.TempDir())
			store.Use("linux", "amd64", c.agent)
			options := deploy.PushOptions{ProbeTime: patience}
			if c.message == "no answer within" {
				options.ProbeTime = time.Second
			}
			_, _, err := deploy.Push(t.Context(), c.t, store, options)
			if err == nil || !strings.Contains(err.Error(), c.message) {
				t.Errorf("got %v, want %q in it", err, c.message)
			}
			if p, ok := errors.AsType[*deploy.PushError](err); ok && len(p.Evidence) > 256<<10 {
				t.Errorf("%d bytes of evidence", len(p.Evidence))
			}
		})
	}
}

func TestUnameIsFoundAmongNoise(t *testing.T) {
	for out, want := range map[string]string{
		"Linux x86_64\n": "linux/amd64",
		"motd: Linux is great\nLinux aarch64\n\n": "linux/arm64",
		"Darwin arm64":                         "darwin/arm64",
		"FreeBSD amd64":                        "freebsd/amd64",
		"MINGW64_NT-10.0-22631 x86_64":         "windows/amd64",
		"Linux x86_64\nConnection closed.":     "linux/amd64",
		"\x1b]0;user@lab: ~\x07Linux x86_64\n": "linux/amd64",
		"Last login: today Linux x86_64\r\n":   "linux/amd64",
	} {
		if p, err := deploy.ParseUname(out); err != nil || p.String() != want {
			t.Errorf("%q: got %v, %v", out, p, err)
		}
	}
}

func FuzzParseUname(f *testing.F) {
	f.Add("Last login\nLinux x86_64\n")
	f.Add("MINGW64_NT-10.0 x86_64")
	f.Add("Linux armv7l")
	f.Fuzz(func(t *testing.T, out string) {
		p, err := deploy.ParseUname(out)
		if err == nil && (p.OS == "" || p.Arch == "") {
			t.Errorf("%q gives half a platform: %v", out, p)
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

func TestStoreExtractsRemovesAndSaysWhatItHas(t *testing.T) {
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	z.Write([]byte("#!/bin/sh\necho ran\n"))
	z.Close()
	dir := filepath.Join(t.TempDir(), "agents")
	s := deploy.NewStoreFS(dir, fstest.MapFS{
		"tare-agent_plan9_mips.gz":  {Data: gz.Bytes()},
		"tare-agent_linux_s390x.gz": {Data: []byte("not gzip")},
	})
	path, err := s.Path("plan9", "mips")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := proc.Run(t.Context(), nil, path); err != nil || string(out) != "ran\n" {
		t.Errorf("the extracted file says %q, %v", out, err)
	}
	if again, err := s.Path("plan9", "mips"); again != path || err != nil {
		t.Errorf("asked again: %s, %v", again, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := s.Path("linux", "s390x"); err == nil || !strings.Contains(err.Error(),
		"extract the agent for linux/s390x") {
		t.Errorf("a damaged agent: %v", err)
	}
	own, err := s.Path(runtime.GOOS, runtime.GOARCH)
	if self, _ := os.Executable(); err != nil || own != self {
		t.Errorf("for this machine: %s, %v", own, err)
	}
	_, err = s.Path("solaris", "sparc")
	for _, want := range []string{"solaris/sparc", "plan9/mips", runtime.GOOS + "/" + runtime.GOARCH, "make build"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
}

// A store of tracers gives an agent that can trace where there is one, and any other store gives none of these.
func TestStoreOfTracers(t *testing.T) {
	packed := func(says string) *fstest.MapFile {
		var gz bytes.Buffer
		z := gzip.NewWriter(&gz)
		z.Write([]byte(says))
		z.Close()
		return &fstest.MapFile{Data: gz.Bytes()}
	}
	files := fstest.MapFS{"tare-agent_plan9_mips.gz": packed("plain"), "tare-tracer_plan9_mips.gz": packed("traces"),
		"tare-agent_plan9_arm.gz": packed("plain")}
	for _, c := range []struct {
		store      *deploy.Store
		arch, want string
	}{
		{deploy.NewStoreFS(t.TempDir(), files), "mips", "plain"},
		{deploy.NewTracersFS(t.TempDir(), files), "mips", "traces"},
		{deploy.NewTracersFS(t.TempDir(), files), "arm", "plain"},
	} {
		path, err := c.store.Path("plan9", c.arch)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v, want %q", c.arch, got, err, c.want)
		}
		if _, err := c.store.Path("plan9", "tracer"); err == nil || strings.Contains(err.Error(), "tare-tracer") {
			t.Errorf("a platform without agents: %v", err)
		}
		if err := c.store.Close(); err != nil {
			t.Error(err)
		}
	}
}
