//go:build amd64

package durability

import (
	"log/slog"
	"maps"
	"strings"
	"testing"

	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/driver/virtualbox"
	"tare/internal/lab/env"
	"tare/internal/lab/microvm"
	"tare/internal/measure/workload/durability"
	"tare/internal/record"
)

// needVirtualBox ends a test where no machine of VirtualBox can be made, and returns the driver and the settings of a
// small machine. It is interpreted, so that it is the same on every host.
func needVirtualBox(t *testing.T) (env.Info, map[string]string) {
	t.Helper()
	if testing.Short() {
		t.Skip("an interpreted machine is booted")
	}
	info := virtualbox.Infos()[0]
	need(t, probed(t, info))
	return info, map[string]string{"engine": "interpreter", "memory": "160MiB", "kernel": "cloud"}
}

// TestVirtualBox asks the real product what a flush is worth on the disks of one machine: by its declaration, and by
// counting the flushes that reach this machine's kernel.
func TestVirtualBox(t *testing.T) {
	info, settings := needVirtualBox(t)
	watcher(t) // a machine is not booted where nothing can be seen
	// Debian's generic kernel has drivers for all of them, and the folder's. No other test goes on from its state.
	maps.Copy(settings, map[string]string{"kernel": microvm.Generic, "chipset": "ich9", "nic": "virtio",
		"nic_mode": "nat", "saved": "off"})
	disk := func(name string, pairs ...string) env.Spec {
		s := env.Spec{Name: name, Driver: "disk", Settings: map[string]string{"size": "64MiB"}}
		for i := 0; i < len(pairs); i += 2 {
			s.Settings[pairs[i]] = pairs[i+1]
		}
		return s
	}
	settings["disk"] = "none"
	o := env.Options{RunID: "test-vbox", Dir: t.TempDir(), Agents: agenttest.Store(t),
		Log:  slog.New(slog.DiscardHandler),
		Spec: env.Spec{Name: "vb", Driver: vbox, Settings: settings},
		Mounts: []env.Spec{
			disk("ide", "controller", "ide"),
			disk("ide-told", "controller", "ide", "ignore_flush", "off"),
			disk("ahci", "controller", "ahci"),
			disk("nvme", "controller", "nvme", "format", "vdi-fixed"),
			disk("scsi"),
			disk("scsi-told", "ignore_flush", "on"),
			disk("raw", "format", "raw", "hostiocache", "off"),
			{Name: "share", Driver: "vboxsf"},
		},
	}
	v, s := opened(t, info.Driver, o)
	if f := v.Facts(); !f.Emulated || !strings.Contains(f.Hypervisor, "IEM") {
		t.Errorf("the guest's code is interpreted, and the facts say %q, emulated %v", f.Hypervisor, f.Emulated)
	}
	want := map[string]struct{ declared, seen, code string }{
		"ide":       {ClassIgnores, ClassIgnores, "vbox-sync-flush-ignored"},
		"ide-told":  {ClassFlushes, ClassFlushes, ""},
		"ahci":      {ClassFlushes, ClassFlushes, ""},
		"nvme":      {ClassIgnores, ClassIgnores, "vbox-write-through"},
		"scsi":      {ClassFlushes, ClassFlushes, ""},
		"scsi-told": {ClassIgnores, ClassIgnores, "vbox-flush-ignored"},
		"raw":       {ClassIgnores, ClassIgnores, "vbox-raw-not-flushed"},
		"share":     {ClassIgnores, ClassIgnores, "vboxsf-fsync"},
	}
	for _, m := range v.(env.Mounter).Mounts() {
		if m.Err != nil {
			t.Error(m.Err)
			continue
		}
		e := record.Environment{Target: record.Target{Outside: v.Facts(), Files: record.Files{Mount: &m.Mount}}}
		got, err := s.Mount(t.Context(), m.Order)
		if err == nil {
			m.Mount.Type, m.Mount.Source, m.Mount.Options = got.Type, got.Source, got.Options
			e.Inside, err = s.FactsAt(t.Context(), m.Mount.Dir)
		}
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		known := Declared(vbox, &e)
		subject := Subject{Worker: s, Root: m.Mount.Dir, Image: Image(&e), Folder: m.Mount.HostDir}
		watched, err := subject.watch(t.Context())
		t.Logf("%s: declared %s (%s); %s: %s", m.Name, known.Class, known.Text, watched.Class, watched.Text)
		w := want[m.Name]
		code := ""
		if len(known.Settings) > 0 {
			code = known.Settings[0].Code
		}
		if err != nil || known.Class != w.declared || code != w.code ||
			(w.seen == ClassFlushes) != (watched.Seen > watched.Asked/2) ||
			w.seen == ClassIgnores && watched.Class != ClassIgnores {
			t.Errorf("%s: want %+v; declared %+v, watched %+v, %v", m.Name, w, known, watched, err)
		}
	}
}

// TestPullByVirtualBox cuts the power of machines of the real product. Its IDE controller ignores flushes unless it is
// told not to, so what was acknowledged is lost when the process is killed. Switched off it flushes its disks: that way
// the test has no power, and says so.
func TestPullByVirtualBox(t *testing.T) {
	info, settings := needVirtualBox(t)
	need(t, bridged())
	settings["controller"] = "ide"
	o := pullOptions(t, info, env.Spec{Name: "vb", Driver: vbox, Settings: settings})
	o.Classes = []durability.Class{durability.Append, durability.Rename}
	o.By = ByKill
	r := pull(t, o)
	if !r.Power || !r.Sound || r.Verdict.Verdict != record.Disproved || len(r.Verdict.Settings) != 1 ||
		r.Verdict.Settings[0].Code != "vbox-sync-flush-ignored" {
		t.Errorf("%s: power %v, sound %v, %+v", o.By, r.Power, r.Sound, r.Verdict)
	}
	o.By = ByPowerOff
	r = pull(t, o)
	if r.Power || !r.Sound || r.Verdict.Verdict != record.Untested ||
		!strings.Contains(r.Verdict.Text, "closes its disks") {
		t.Errorf("%s: power %v, sound %v, %+v", o.By, r.Power, r.Sound, r.Verdict)
	}
	for _, p := range r.Pulls {
		if p.Acknowledged == 0 || len(p.Losses) > 0 || p.Cut.Pending > 0 {
			t.Errorf("%s: %+v", o.By, p)
		}
	}
}
