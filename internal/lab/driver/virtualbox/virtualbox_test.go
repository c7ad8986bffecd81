package virtualbox

import (
	"os"
	"strings"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m, Infos()) }

func spec(pairs ...string) env.Spec {
	s := env.Spec{Name: "vb", Driver: name, Settings: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		s.Settings[pairs[i]] = pairs[i+1]
	}
	return s
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		spec env.Spec
		says string
	}{
		{spec("engine", interpreter, "cpus", "2"), "one CPU only"},
		{spec("engine", interpreter, "nested_paging", "on"), "leave them out"},
		{spec("colour", "red"), "has no setting"},
		{spec("memory", "64MiB"), "128MiB"},
		{spec("controller", "scsi"), "virtio-scsi"},
		{spec("disk", "1MiB"), "32MiB"},
		{spec("boot", "1s"), "10s"},
		{spec("root", "relative"), "absolute"},
		{spec("clone", linked), "virtualbox:NAME?clone=linked"},
		{spec("clone", "full"), "none, linked"},
		{spec("ssh", "me@there"), "virtualbox:NAME?ssh=me@there"},
		{spec("root", t.TempDir()), "no VBoxManage"},
	} {
		if _, err := parse(&c.spec); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.spec, err, c.says)
		}
	}
	s := spec("engine", interpreter)
	c, err := parse(&s)
	if err != nil || c.paravirt != none || c.boot != bootInterpreted || c.fallback {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestVersions(t *testing.T) {
	for v, says := range map[string]string{"7.2.22_Debianr168000": "", "6.1.38r153438": "", "10.0.0r1": "",
		"6.0.24r139119": "too old", "4.3.1": "too old", "Kernel driver not loaded": "not a version",
		"": "not a version"} {
		if err := checkVersion(v); says == "" && err != nil || says != "" && (err == nil ||
			!strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v, want %q", v, err, says)
		}
	}
}

func TestPlaces(t *testing.T) {
	var disks []*disk
	for range 4 {
		disks = append(disks, &disk{drive: drive{controller: "ide"}})
	}
	if err := number(disks[:3]); err != nil || disks[2].lun != 2 {
		t.Errorf("%v, the third has place %d", err, disks[2].lun)
	}
	if got := strings.Join(disks[2].place(), " "); got != "--storagectl ide --port 1 --device 0" {
		t.Error(got)
	}
	if err := number(disks); err == nil {
		t.Error("the DVD's place was given to a disk")
	}
	disks[0].ignoreFlush = "off"
	if keys := disks[0].flushKeys(); keys["VBoxInternal/Devices/piix3ide/0/LUN#0/Config/IgnoreFlush"] != "0" {
		t.Errorf("%v", keys)
	}
}

// FuzzReadLog reads logs that VirtualBox, or anybody else, may have written.
func FuzzReadLog(f *testing.F) {
	if real, err := os.ReadFile("testdata/VBox.log"); err == nil {
		f.Add(string(real))
	}
	f.Add("00:00:03.951211 DrvVD: Flushes will be ignored\n00:00:04.1 VERR_SUP_DRIVERLESS\n")
	f.Fuzz(func(t *testing.T, text string) {
		l := readLog(text)
		if len(l.Flushes) > 200 {
			t.Errorf("%d lines are kept", len(l.Flushes))
		}
		parseInfo(text)
		parseVersion(text)
	})
}
