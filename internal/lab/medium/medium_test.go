package medium

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/microvm"
	"tare/internal/sys/proc"
)

func TestMain(m *testing.M) { os.Exit(agenttest.Main(m)) }

// kernel returns the cloud kernel, which is fetched if it is missing.
func kernel(t *testing.T) microvm.Kernel {
	t.Helper()
	found, err := microvm.Find("", "amd64", microvm.Cloud)
	if err == nil {
		return found[0]
	}
	k, err := microvm.Fetch(t.Context(), "", "amd64", microvm.Cloud)
	if err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return k
}

// TestFormatsHoldTheSame: that it boots is tested with package serial.
func TestFormatsHoldTheSame(t *testing.T) {
	dir := t.TempDir()
	o := Options{Agents: thisFile{}, Kernel: kernel(t), Common: true, Port: "ttyS1", Baud: 9600,
		Scratch: "a disk", Interpreted: true, Args: []string{"loglevel=7"}}
	sizes := map[string]int64{}
	for _, f := range []string{"iso", "vdi", "vmdk", "vhdx"} { // a qcow2 boots there, as two of these do
		path := filepath.Join(dir, "medium."+f)
		w, err := Write(t.Context(), path, o)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(w.Args, "tare.port=ttyS1,9600") || !strings.Contains(w.Args, "mitigations=off") ||
			!strings.HasSuffix(w.Args, " loglevel=7") || w.Facts["medium.format"] != f ||
			w.Facts["guest.initramfs.sha256"] == "" || w.Kernel.Release != o.Kernel.Release {
			t.Errorf("%+v", w)
		}
		raw := filepath.Join(dir, f+".raw")
		name := f
		if f == "iso" {
			name = "raw"
		}
		if _, err := proc.Run(t.Context(), nil, "qemu-img", "convert", "-f", name, "-O", "raw", path, raw); err != nil {
			t.Error(err)
			continue
		}
		check(t, raw)
		info, err := os.Stat(raw)
		if err != nil {
			t.Fatal(err)
		}
		sizes[f] = info.Size()
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".tare-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	t.Logf("bytes: %v", sizes)
}

// check looks for what firmware looks for.
func check(t *testing.T, raw string) {
	t.Helper()
	b, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	if b[510] != 0x55 || b[511] != 0xaa {
		t.Errorf("%s has no boot record", raw)
	}
	if string(b[0x8001:0x8006]) != "CD001" || string(b[0x8801:0x881e]) != "CD001\x01EL TORITO SPECIFICATION" {
		t.Errorf("%s is no CD that boots", raw)
	}
	if !strings.Contains(string(b[:1<<16]), "EFI PART") && b[0x1be+4] != 0xef && b[0x1ce+4] != 0xef {
		t.Errorf("%s has no partition for UEFI: %x", raw, b[0x1be:0x1fe])
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	k := kernel(t)
	arm := k
	arm.Arch = "arm64"
	there := filepath.Join(t.TempDir(), "there.iso")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		path string
		o    Options
	}{
		`one of the formats iso, raw, qcow2, vdi, vmdk, vhdx, not "tar"`: {"x.tar", Options{Kernel: k}},
		"is there already":           {there, Options{Kernel: k}},
		"has no module nosuchmodule": {"x.iso", Options{Kernel: k, Modules: []string{"nosuchmodule"}}},
		"media are for amd64":        {"x.iso", Options{Kernel: arm}},
		"tare guest fetch":           {"x.iso", Options{Cache: t.TempDir(), Modules: []string{"nosuchmodule"}}},
		"command line has 3":         {"x.iso", Options{Kernel: k, Args: []string{strings.Repeat("a", 3000)}}},
		"no agent for linux/amd64":   {"x.iso", Options{Kernel: k, Agents: noAgents{}}},
		"no such file or directory":  {filepath.Join(t.TempDir(), "none", "x.iso"), Options{Kernel: k}},
	} {
		path := c.path
		if !filepath.IsAbs(path) {
			path = filepath.Join(t.TempDir(), path)
		}
		if c.o.Agents == nil {
			c.o.Agents = thisFile{}
		}
		if _, err := Write(t.Context(), path, c.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q: %v", want, err)
		} else {
			t.Log(err)
		}
		if _, err := os.Stat(path); err == nil && path != there {
			t.Errorf("%s was written", path)
		}
	}
	t.Setenv("PATH", "")
	if s := Probe(t.Context()); s.OK || !strings.Contains(s.Remedy, "xorriso") || !strings.Contains(s.Detail, "mcopy") {
		t.Errorf("%+v", s)
	}
}

// thisFile gives this file as the agent: what is written here is not booted.
type thisFile struct{}

func (thisFile) Path(string, string) (string, error) { return "medium_test.go", nil }

type noAgents struct{}

func (noAgents) Path(goos, goarch string) (string, error) {
	return "", &os.PathError{Op: "no agent for " + goos + "/" + goarch, Err: os.ErrNotExist}
}
