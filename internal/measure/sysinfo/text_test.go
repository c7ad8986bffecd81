package sysinfo

import (
	"strings"
	"testing"

	"tare/internal/sys/mountinfo"
)

const x86 = `processor	: 0
vendor_id	: GenuineIntel
model name	: Intel(R) Xeon(R) CPU @ 2.20GHz
cpu MHz		: 2200.000
physical id	: 0
core id		: 0
flags		: fpu vme hypervisor lahf_lm

processor	: 1
vendor_id	: GenuineIntel
model name	: Intel(R) Xeon(R) CPU @ 2.20GHz
cpu MHz		: 2400.000
physical id	: 0
core id		: 0
flags		: fpu vme hypervisor lahf_lm

processor	: 2
cpu MHz		: 2300.000
physical id	: 1
core id		: 0
`

const arm = `processor	: 0
BogoMIPS	: 125.00
Features	: fp asimd evtstrm aes
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c

processor	: 1
CPU implementer	: 0x41
CPU part	: 0xd0c
`

func TestParseCPUInfo(t *testing.T) {
	c := parseCPUInfo(x86)
	if c.model != "Intel(R) Xeon(R) CPU @ 2.20GHz" || c.vendor != "GenuineIntel" || c.cores != 2 || c.processors != 3 ||
		c.mhz != 2300 || !c.hypervisor {
		t.Errorf("x86: %+v", c)
	}
	c = parseCPUInfo(arm)
	if c.model != "Neoverse-N1" || c.processors != 2 || c.cores != 0 || c.mhz != 0 || c.hypervisor {
		t.Errorf("arm64: %+v", c)
	}
	c = parseCPUInfo("processor\t: 0\nhart\t: 0\nisa\t: rv64imafdch_zicsr_zifencei\nmmu\t: sv57\n")
	if c.model != "RISC-V rv64imafdch" || c.processors != 1 {
		t.Errorf("riscv64: %+v", c)
	}
	if c := parseCPUInfo("flags : hypervisors"); c.hypervisor {
		t.Error("a flag that only begins like another was taken for it")
	}
}

const mounts = `22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
23 22 0:21 / /proc rw,nosuid - proc proc rw
40 22 0:38 / /mnt/with\040space rw,nosuid,nodev - 9p share rw,access=client,msize=512000,trans=virtio
41 22 0:39 /sub /mnt/a ro,relatime shared:2 master:1 - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
42 41 8:17 / /mnt/a/b rw - xfs /dev/sdb1 rw,attr2
43 41 8:33 / /mnt/a/b rw - ext2 /dev/sdc1 rw
broken line
1 2 3
`

func TestMountOf(t *testing.T) {
	all := mountinfo.Parse(mounts)
	if len(all) != 6 {
		t.Fatalf("%d mounts were read, want 6", len(all))
	}
	for path, want := range map[string]string{
		"/":                   "ext4 / rw,relatime,errors=remount-ro",
		"/tmp/x":              "ext4 / rw,relatime,errors=remount-ro",
		"/mnt/with space/f":   "9p /mnt/with space rw,nosuid,nodev,access=client,msize=512000,trans=virtio",
		"/mnt/with spaces":    "ext4 / rw,relatime,errors=remount-ro",
		"/mnt/a":              "overlay /mnt/a ro,relatime,lowerdir=/l,upperdir=/u,workdir=/w",
		"/mnt/a/bc":           "overlay /mnt/a ro,relatime,lowerdir=/l,upperdir=/u,workdir=/w",
		"/mnt/a/b/c":          "ext2 /mnt/a/b rw", // the last one covers the others
		"relative/is/nowhere": "",
		"/procs":              "ext4 / rw,relatime,errors=remount-ro",
	} {
		m, ok := mountOf(all, path)
		got := m.Kind + " " + m.Point + " " + options(&m)
		if !ok {
			got = ""
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestSmallParsers(t *testing.T) {
	const text = "# c\nNAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"
	if got := parseOSRelease(text); got != "Debian GNU/Linux 12 (bookworm)" {
		t.Errorf("os-release: %q", got)
	}
	if got := parseOSRelease("NAME=Alpine\nVERSION='3.20'"); got != "Alpine 3.20" {
		t.Errorf("os-release without PRETTY_NAME: %q", got)
	}
	if got := parseMemInfo("MemTotal:       16384 kB\nMemFree: 1 kB\n", "MemTotal"); got != 16<<20 {
		t.Errorf("meminfo: %d", got)
	}
	for _, bad := range []string{"", "MemTotal: x kB", "MemTotal: -1 kB", "MemTotal: 99999999999999999999 kB"} {
		if got := parseMemInfo(bad, "MemTotal"); got != -1 {
			t.Errorf("meminfo %q: %d", bad, got)
		}
	}
	if chosen("always [madvise] never\n") != "madvise" || chosen("none\n") != "none" || chosen("[x") != "[x" {
		t.Error("chosen")
	}
	for text, want := range map[string]string{
		"0::/\n": "", "12:cpu:/docker/abc\n0::/\n": "docker",
		"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-x.scope": "kubernetes",
		"0::/machine.slice/libpod-12.scope/container":                   "podman",
		"0::/system.slice/docker.service":                               "docker",
		"1:docker:/":                                                    "",
	} {
		if got := containerByCgroup(text); got != want {
			t.Errorf("cgroup %q: got %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]float64{"150000 100000\n": 1.5, "max 100000": 0, "": 0, "-1 100000": 0,
		"1 0": 0} {
		if got := parseCPUMax(text); got != want {
			t.Errorf("cpu.max %q: %v", text, got)
		}
	}
	if got := parsePressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=12345\n" +
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"); got != 12345 {
		t.Errorf("pressure: %d", got)
	}
	if parsePressure("full total=9") != -1 || parsePressure("some total=x") != -1 {
		t.Error("pressure without a some line")
	}
	if l, r := parseLoad("0.52 0.58 0.59 3/467 12345\n"); l != 0.52 || r != 3 {
		t.Errorf("loadavg: %v %v", l, r)
	}
	if l, r := parseLoad("NaN 0 0 x/1 1"); l != -1 || r != -1 {
		t.Errorf("bad loadavg: %v %v", l, r)
	}
	if s, total := parseSteal("cpu  100 1 50 800 10 2 3 34 5 6\ncpu0 1 1 1 1 1 1 1 1\n"); s != 34 || total != 1000 {
		t.Errorf("stat: %d of %d", s, total)
	}
	if s, total := parseSteal("cpu  1 2 3\n"); s != -1 || total != -1 {
		t.Errorf("old stat: %d of %d", s, total)
	}
	const line = "BOOT_IMAGE=/vmlinuz root=UUID=1 mitigations=off token=secret quiet nohz_full=1-3\n"
	if got := tuning(line); got != "mitigations=off nohz_full=1-3" {
		t.Errorf("command line: %q", got)
	}
	if v2, v1 := cgroupPaths("3:cpu,cpuacct:/a\n0::/b/c:d\n", "cpu"); v2 != "/b/c:d" || v1 != "/a" {
		t.Errorf("cgroup paths %q %q", v2, v1)
	}
}

func TestHypervisorsAreToldApart(t *testing.T) {
	for sig, want := range map[string]string{"": "", "KVMKVMKVM\x00\x00\x00": "kvm", "TCGTCGTCGTCG": "tcg",
		"Microsoft Hv": "hyper-v", "whoknowswhat": "unknown"} {
		if got := vmByCPU(sig); got != want {
			t.Errorf("signature %q: got %q, want %q", sig, got, want)
		}
	}
	for _, c := range []struct {
		vendor, product, bios, name string
		sure                        bool
	}{
		{"innotek GmbH", "VirtualBox", "innotek GmbH", "virtualbox", true},
		{"QEMU", "Standard PC (Q35 + ICH9, 2009)", "SeaBIOS", "qemu", false},
		{"VMware, Inc.", "VMware20,1", "VMware, Inc.", "vmware", true},
		{"Microsoft Corporation", "Virtual Machine", "", "hyper-v", true},
		{"Microsoft Corporation", "Surface Laptop", "", "", false},
		{"Google", "Google Compute Engine", "Google", "kvm", false},
		{"LENOVO", "20XW", "LENOVO", "", false},
	} {
		if name, sure := vmByFirmware(c.vendor, c.product, c.bios); name != c.name || sure != c.sure {
			t.Errorf("%s %s: got %q %v", c.vendor, c.product, name, sure)
		}
	}
}

func FuzzMountOf(f *testing.F) {
	f.Add(mounts, "/mnt/a/b/c")
	f.Add("1 2 3:4 / / rw - a b", "/")
	f.Add(`1 2 3:4 \057 \057\134 rw -  `, `/\`)
	f.Fuzz(func(t *testing.T, text, path string) {
		all := mountinfo.Parse(text)
		m, ok := mountOf(all, path)
		if ok && m.Point != "/" && !strings.HasPrefix(path, m.Point) {
			t.Fatalf("%q is not on %q", path, m.Point)
		}
	})
}

func FuzzParseCPUInfo(f *testing.F) {
	f.Add(x86)
	f.Add(arm)
	f.Add("cpu MHz : 1e999\nprocessor:0\ncore id:")
	f.Fuzz(func(t *testing.T, text string) {
		c := parseCPUInfo(text)
		lines := strings.Count(text, "\n") + 1
		if c.cores > lines || c.processors > lines || !(c.mhz >= 0 && c.mhz < 1e6) {
			t.Fatalf("%+v from %q", c, text)
		}
	})
}

// The smaller parsers share one target: none may panic or tell more than its text.
func FuzzSmallParsers(f *testing.F) {
	f.Add("some avg10=0.00 total=12345\n")
	f.Add("0.52 0.58 0.59 3/467 12345\n")
	f.Add("cpu  100 1 50 800 10 2 3 34 5 6\n")
	f.Add("0::/a/b\n")
	f.Fuzz(func(t *testing.T, text string) {
		if l, r := parseLoad(text); l < -1 || r < -1 || l != l {
			t.Errorf("load %v, running %v", l, r)
		}
		if parsePressure(text) < -1 || parseMemInfo(text, "MemTotal") < -1 || parseCPUMax(text) < 0 {
			t.Error("a negative figure")
		}
		if s, _ := parseSteal(text); s < -1 {
			t.Errorf("steal %d", s)
		}
		parseOSRelease(text)
		chosen(text)
		containerByCgroup(text)
		cgroupPaths(text, "cpu")
	})
}
