package durability

import (
	"testing"

	"tare/internal/record"
)

func TestDeclared(t *testing.T) {
	on := func(fs, cache string) *record.Environment {
		return &record.Environment{Target: record.Target{Inside: record.Facts{WorkFS: fs},
			Outside: record.Facts{Settings: map[string]string{"cache": cache}}}}
	}
	mount := func(kind, fs, cache string) *record.Environment {
		e := on("ext4 (rw)", "none")
		e.Mount = &record.Mount{Kind: kind, Type: fs, Settings: map[string]string{"cache": cache}}
		return e
	}
	kind := func(kind, setting, value string) *record.Environment {
		e := mount(kind, kind, "")
		e.Mount.Settings = map[string]string{setting: value}
		return e
	}
	guest := func(cache, writeCache string) *record.Environment {
		e := on("ext4 (rw)", cache)
		e.Inside.Extra = map[string]string{"work.disk.name": "vda", "work.disk.write_cache": writeCache,
			"hypervisor.vm": "kvm"}
		return e
	}
	for name, c := range map[string]struct {
		driver string
		e      *record.Environment
		want   string
	}{
		"host":               {"local", on("ext4 (rw,relatime)", ""), ClassFlushes},
		"host in memory":     {"local", on("tmpfs (rw)", ""), ClassMemory},
		"host, no barriers":  {"local", on("ext4 (rw,nobarrier)", ""), ClassIgnores},
		"host, writeback":    {"local", on("ext4 (rw,data=writeback)", ""), ClassFlushes},
		"host, unknown":      {"local", on("somefs (rw)", ""), ClassUnknown},
		"machine":            {"qemu", on("ext4 (rw)", "none"), ClassFlushes},
		"machine, unsafe":    {"qemu", on("ext4 (rw)", "unsafe"), ClassIgnores},
		"machine, no disk":   {"qemu", on("tmpfs (rw)", "unsafe"), ClassMemory},
		"disk of a machine":  {"qemu", mount("disk", "xfs", "unsafe"), ClassIgnores},
		"share of a machine": {"qemu", mount("9p", "9p", "loose"), ClassUnknown},
		"samba, lax":         {"qemu", kind("smb", "strict_sync", "off"), ClassIgnores},
		"samba":              {"qemu", kind("smb", "strict_sync", "on"), ClassUnknown},
		"nfs, async":         {"qemu", kind("nfs", "async", "on"), ClassIgnores},
		"no flush is sent":   {"qemu", guest("none", "write through"), ClassIgnores},
		"none is needed":     {"qemu", guest("writethrough", "write through"), ClassFlushes},
		"flushes are sent":   {"qemu", guest("none", "write back"), ClassFlushes},
		"remote, unknown":    {"ssh", guest("", "write through"), ClassUnknown},
		"remote":             {"ssh", on("ext4 (rw)", ""), ClassUnknown},
	} {
		if d := Declared(c.driver, c.e); d.Class != c.want || d.Verdict != record.Untested || d.Text == "" {
			t.Errorf("%s: %+v, want %s", name, d, c.want)
		}
	}
}
