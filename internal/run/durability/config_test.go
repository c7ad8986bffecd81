package durability

import (
	"strings"
	"testing"

	"tare/internal/record"
)

func codes(fs []Finding) string {
	var all []string
	for _, f := range fs {
		all = append(all, f.Code)
	}
	return strings.Join(all, " ")
}

func TestConfigurations(t *testing.T) {
	read := func(fs []Finding, err error) string {
		if err != nil {
			t.Error(err)
		}
		return codes(fs)
	}
	for name, c := range map[string]struct{ got, want string }{
		"drive unsafe": {codes(QEMU([]string{"qemu", "-drive", "file=a,cache=unsafe"})), "qemu-cache-unsafe"},
		"drive none":   {codes(QEMU([]string{"qemu", "-drive", "file=a,cache=none"})), ""},
		"blockdev": {codes(QEMU([]string{"qemu", "-blockdev",
			`{"driver":"raw","cache":{"direct":false,"no-flush":true}}`})), "qemu-cache-unsafe"},
		"blockdev dots": {codes(QEMU([]string{"qemu", "-blockdev", "driver=raw,cache.no-flush=on"})),
			"qemu-cache-unsafe"},
		"blockdev safe": {codes(QEMU([]string{"qemu", "-blockdev",
			`{"driver":"raw","cache":{"direct":true,"no-flush":false}}`})), ""},
		"two dashes":    {codes(QEMU([]string{"qemu", "--drive", "file=x,cache=unsafe"})), "qemu-cache-unsafe"},
		"no-flush=true": {codes(QEMU([]string{"qemu", "-drive", "file=x,cache.no-flush=true"})), "qemu-cache-unsafe"},
		"no-flush=yes": {codes(QEMU([]string{"qemu", "-blockdev", "driver=qcow2,cache.no-flush=yes,file.filename=x"})),
			"qemu-cache-unsafe"},
		"no-flush=off":  {codes(QEMU([]string{"qemu", "-blockdev", "driver=raw,cache.no-flush=off"})), ""},
		"-snapshot":     {codes(QEMU([]string{"qemu", "-snapshot", "-hda", "x"})), "qemu-snapshot"},
		"snapshot=on":   {codes(QEMU([]string{"qemu", "-drive", "file=x,snapshot=on"})), "qemu-snapshot"},
		"cdrom":         {codes(QEMU([]string{"qemu", "-drive", "file=x,media=cdrom,cache=unsafe"})), ""},
		"comma in name": {codes(QEMU([]string{"qemu", "-drive", "file=a,,cache=unsafe,if=virtio"})), ""},
		"a file's name": {codes(QEMU([]string{"qemu", "-kernel", "cache=unsafe"})), ""},
		"libvirt":       {read(Libvirt(`<domain><devices><disk><driver name='qemu' cache='unsafe'/></disk><disk><driver cache='none'/></disk></devices></domain>`)), "libvirt-cache-unsafe"},
		"write through": {codes(WriteCache("vda", "write through\n")), "write-cache-through"},
		"write back":    {codes(WriteCache("vda", "write back\n")), ""},
		"nobarrier":     {codes(MountOptions("ext4", "rw,nobarrier,relatime")), "mount-nobarrier"},
		"vboxsf":        {codes(MountOptions("vboxsf", "rw")), "vboxsf-fsync"},
		"exports": {read(Exports("# x(async)\n/srv 10.0.0.0/8(rw,async) \\\n host(rw,sync)\n/home *(rw,sync)\n")),
			"nfs-async"},
		"samba": {read(Samba("[global]\n strict sync = yes\n[a]\n Strict Sync= No\n; strict sync = no\n")),
			"smb-strict-sync"},
	} {
		if c.got != c.want {
			t.Errorf("%s: found %q, want %q", name, c.got, c.want)
		}
	}
	if _, err := Libvirt("<domain><disk"); err == nil {
		t.Error("broken XML was read")
	}
	if _, err := Exports(strings.Repeat("x", MaxConfig+1)); err == nil {
		t.Error("too long a text was read")
	}
}

func FuzzConfigurations(f *testing.F) {
	f.Add("/srv *(rw,async)")
	f.Add("[a]\nstrict sync = no")
	f.Add("<driver cache='unsafe'/>")
	f.Add("DrvVD: Flushes will be passed to the disk\nDrvVD: Async flushes will be ignored\nAHCI: LUN#0: disk")
	f.Fuzz(func(t *testing.T, s string) {
		for _, read := range []func(string) ([]Finding, error){VirtualBoxLog, Libvirt, Exports, Samba} {
			found, _ := read(s)
			for _, x := range found {
				if x.Code == "" || x.Layer == "" || x.Text == "" || x.Remedy == "" {
					t.Errorf("%+v", x)
				}
			}
		}
		QEMU([]string{"qemu", "-drive", s})
		MountOptions(s, s)
		WriteCache("vda", s)
	})
}

func TestRelative(t *testing.T) {
	rounds := func(n int, inside float64) (rs []Round) {
		for range n {
			rs = append(rs, Round{Inside: inside, Host: 2e-3})
		}
		return rs
	}
	mixed := rounds(RelativeRounds, 1e-4)
	mixed[3].Inside = 3e-3
	for name, c := range map[string]struct {
		rounds []Round
		class  string
	}{
		"cheaper every time": {rounds(RelativeRounds, 1e-4), ClassIgnores},
		"dearer":             {rounds(RelativeRounds, 3e-3), ClassUnknown},
		"cheaper but once":   {mixed, ClassUnknown},
		"too few":            {rounds(RelativeRounds-1, 1e-4), ClassUnknown},
		"no figure":          {rounds(RelativeRounds, 0), ClassUnknown},
	} {
		if d := Relative(c.rounds); d.Class != c.class || d.Verdict != record.Untested || d.Text == "" {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
