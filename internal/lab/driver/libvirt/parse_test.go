package libvirt

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"tare/internal/lab/driver/qemu"
	"tare/internal/lab/env"
	"tare/internal/lab/mount"
	"tare/internal/sys/proc"
)

func TestParseVersion(t *testing.T) {
	const said = "Compiled against library: libvirt 9.0.0\nUsing library: libvirt 9.0.0\nUsing API: QEMU 9.0.0\n" +
		"Running hypervisor: QEMU 7.2.22\nRunning against daemon: 9.1.0\n"
	if libvirt, hypervisor := parseVersion(said); libvirt != "9.1.0" || hypervisor != "7.2.22" {
		t.Errorf("%q, %q", libvirt, hypervisor)
	}
	if _, hypervisor := parseVersion("Running hypervisor: Xen 4.1.0\n"); hypervisor != "" {
		t.Errorf("Xen is taken for QEMU %s", hypervisor)
	}
}

// A domain as libvirt 9.0 reports it, shortened, with what must not be told.
const reported = `<domain type='kvm' id='3'>
  <name>web</name><uuid>c1f7</uuid>
  <memory unit='KiB'>2097152</memory><currentMemory unit='KiB'>1048576</currentMemory>
  <vcpu placement='static' cpuset='0-3' current='2'>4</vcpu><iothreads>1</iothreads>
  <cputune><vcpupin vcpu='0' cpuset='2'/><quota>50000</quota></cputune>
  <memoryBacking><hugepages/></memoryBacking>
  <os firmware='efi'><type arch='x86_64' machine='pc-q35-7.2'>hvm</type>
    <loader readonly='yes' type='pflash'>/s</loader></os>
  <features><acpi/><hyperv mode='custom'/></features>
  <cpu mode='custom'><model fallback='forbid'>Skylake-Client</model>
    <topology sockets='1' dies='1' cores='2' threads='2'/></cpu>
  <clock offset='utc'/>
  <devices>
    <disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none' io='native' discard='unmap'/>
      <source file='/secret/web.qcow2'/><target dev='vda' bus='virtio'/></disk>
    <disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>
    <controller type='scsi' index='0' model='virtio-scsi'/>
    <filesystem type='mount'><driver type='virtiofs'/><binary path='/x'><cache mode='always'/></binary>
      <target dir='src'/></filesystem>
    <filesystem type='mount' accessmode='mapped'><target dir='old'/></filesystem>
    <interface type='network'><mac address='52:54:00:11:22:33'/><model type='virtio'/>
      <driver name='vhost' queues='4'/></interface>
    <graphics type='vnc' passwd='geheim'/><memballoon model='virtio'/>
  </devices>
</domain>`

func TestDomainFacts(t *testing.T) {
	d, err := parseDomain(reported)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"domain.type": "kvm", "domain.arch": "x86_64", "domain.machine": "pc-q35-7.2", "domain.firmware": "efi",
		"domain.cpu": "custom Skylake-Client", "domain.cpus": "2", "domain.cpus.set": "0-3",
		"domain.cpus.quota": "50000",
		"domain.cpus.pin.0": "2", "domain.cpus.topology": "sockets=1 cores=2 threads=2", "domain.memory": "1073741824",
		"domain.memory.backing": "hugepages", "domain.balloon": "virtio", "domain.iothreads": "1",
		"domain.clock":  "utc",
		"domain.hyperv": "on", "domain.scsi": "virtio-scsi",
		"domain.disk.0":   "disk vda bus=virtio format=qcow2 source=file cache=none io=native discard=unmap",
		"domain.disk.1":   "cdrom sda bus=sata source=file readonly",
		"domain.folder.0": "virtiofs tag=src cache=always", "domain.folder.1": "9p tag=old accessmode=mapped",
		"domain.nic.0": "virtio network=network driver=vhost queues=4",
	}
	got := d.facts()
	if !maps.Equal(got, want) {
		for k := range maps.All(want) {
			if got[k] != want[k] {
				t.Errorf("%s is %q, want %q", k, got[k], want[k])
			}
		}
		t.Errorf("facts are %v", got)
	}
	for k, v := range got {
		if strings.Contains(v, "secret") || strings.Contains(v, "geheim") || strings.Contains(v, "52:54") {
			t.Errorf("%s=%s tells what it must not", k, v)
		}
	}
	if d.cpus() != 2 || d.memoryBytes() != 1<<30 {
		t.Errorf("%d CPUs, %d bytes", d.cpus(), d.memoryBytes())
	}
}

func FuzzParseDomain(f *testing.F) {
	f.Add(reported)
	f.Add("<domain type='qemu'><name>x</name><vcpu>99999999999</vcpu></domain>")
	f.Add("<domain")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDomain(text)
		if err != nil {
			return
		}
		for k, v := range d.facts() {
			if len(v) > maxValue || strings.ContainsAny(v, "\n\x00\x1b") {
				t.Errorf("fact %s=%q", k, v)
			}
		}
		if d.cpus() < 0 || d.memoryBytes() < 0 {
			t.Errorf("%d CPUs, %d bytes", d.cpus(), d.memoryBytes())
		}
		readOwner(text)
	})
}

func TestAddresses(t *testing.T) {
	const said = ` Name       MAC address          Protocol     Address
-------------------------------------------------------------------------------
 lo         00:00:00:00:00:00    ipv4         127.0.0.1/8
 -          -                    ipv6         ::1/128
 vnet0      52:54:00:aa:bb:cc    ipv6         fe80::1/64
 -          -                    ipv6         2001:db8::7/64
 vnet0      52:54:00:aa:bb:cc    ipv4         192.168.122.45/24
`
	got := parseAddresses(said)
	if len(got) != 2 || got[0].String() != "192.168.122.45" || got[1].String() != "2001:db8::7" {
		t.Errorf("%v", got)
	}
}

func FuzzAddresses(f *testing.F) {
	f.Add(" vnet0  52:54:00:aa:bb:cc  ipv4  10.0.0.1/24\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range parseAddresses(text) {
			if !a.IsValid() || strings.ContainsAny(a.String(), " %") {
				t.Errorf("%v", a)
			}
		}
	})
}

// Messages of libvirt 9.0 and 10, as virsh prints them.
func TestExplain(t *testing.T) {
	v := virsh{uri: systemURI}
	for said, want := range map[string][2]string{
		"error: failed to connect to the hypervisor\nerror: Failed to connect socket to " +
			"'/var/run/libvirt/libvirt-sock': Permission denied": {"does not let this user in", "group libvirt"},
		"error: failed to connect to the hypervisor\nerror: authentication unavailable: no polkit agent available to " +
			"authenticate action 'org.libvirt.unix.manage'": {"does not let this user in", "group libvirt"},
		"error: Failed to create domain from /dev/stdin\nerror: invalid argument: could not get " +
			"preferred machine for /usr/bin/qemu-system-x86_64 type=kvm": {"KVM cannot be used", "type=qemu"},
		"error: internal error: process exited while connecting to monitor: Could not access KVM kernel " +
			"module: Permission denied\nqemu-system-x86_64: failed to initialize kvm: Permission " +
			"denied": {"KVM cannot be used",
			"type=qemu"},
		"error: Disconnected from qemu:///system due to end of file\nerror: End of file while reading data: " +
			"Input/output error": {"ended the connection", "systemctl"},
		"error: cannot write data to file '/x': No space left on device": {"disk is full", "free some space"},
		"error: something new": {"something new", "by hand"},
	} {
		if _, err := proc.LookPath("virsh"); err != nil {
			if os.Getenv("TARE_REQUIRE") != "" {
				t.Fatal(err)
			}
			t.Skip("virsh is not installed")
		}
		x := v.explain("make domain", &proc.ExitError{Argv: []string{"virsh"}, Stderr: said,
			Err: errors.New("exit status 1")})
		if !strings.Contains(x.Err.Error(), want[0]) || !strings.Contains(x.Remedy, want[1]) || len(x.Evidence) == 0 {
			t.Errorf("%q is explained as %v; %s", said, x.Err, x.Remedy)
		}
	}
}

func TestURIs(t *testing.T) {
	for uri, want := range map[string]bool{systemURI: true, "qemu+unix:///system?socket=/x": true, "xen:///": false,
		"qemu+ssh://u@h/system": true, "qemu:///system x": false, "": false} {
		if err := checkURI(uri); (err == nil) != want {
			t.Errorf("%q: %v", uri, err)
		}
	}
	for uri, want := range map[string]bool{systemURI: true, sessionURI: true, "qemu+ssh://h/system": false,
		"qemu+ssh:///system": false} {
		if here(uri) != want {
			t.Errorf("%s is here: %v", uri, !want)
		}
	}
}

func TestDomainXML(t *testing.T) {
	m := &qemu.Machine{Name: "tare-r-vm", Arch: "amd64", Accel: "tcg", Board: "q35", CPU: "Haswell,+avx2,rtm=off",
		CPUs:   2,
		Memory: 1 << 30, Kernel: "/k<&>\"", Initrd: "/i", Append: "a=\"b c\"", NIC: "e1000", Shared: true,
		Disks: []qemu.Disk{{ID: "scratch", Serial: "s", Path: "/d", Driver: "vpc", Cache: "none", AIO: "native",
			Discard: "unmap"}, {ID: "root", Path: "/dev/loop0", Driver: "raw", Device: true, ReadOnly: true}},
		Folders: []mount.Folder{{Tag: "t", Path: "/p", Model: "mapped-xattr", Immediate: true},
			{Tag: "v", Socket: "/s", Queue: "512"}},
	}
	text, err := domainXML(m, thisProcess("r"), newUUID(), sockets{"/c", "/w"}, shape{"efi", "sata", true})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<domain type="qemu">`, `<os firmware="efi">`, "/k&lt;&amp;&gt;&#34;",
		`<model fallback="forbid">Haswell</model>`, `<feature policy="require" name="avx2"/>`,
		`<feature policy="disable" name="rtm"/>`, `type="vpc" cache="none" io="native" discard="unmap"`,
		`<target dev="sda" bus="sata"/>`, `<target dev="vda" bus="virtio"/>`, // it is read-only
		`<disk type="block" device="disk">`, "<readonly/>", `accessmode="mapped" multidevs="remap" fmode="644"`,
		`wrpolicy="immediate"`, `<source socket="/s"/>`, `<access mode="shared"/>`, `<model type="e1000"/>`,
		`<seclabel type="static" model="dac" relabel="no">`, `run="r"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if o, ok := readOwner(string(text)); !ok || o.run != "r" || o.PID != os.Getpid() || o.dead(o.machine) {
		t.Errorf("the owner is read back as %+v, %v", o, ok)
	}
	for _, bad := range []func(*qemu.Machine){
		func(m *qemu.Machine) { m.CPU = "max,family=6" },
		func(m *qemu.Machine) { m.Disks = []qemu.Disk{{Driver: "vhdx"}} },
		func(m *qemu.Machine) { m.Folders = []mount.Folder{{Model: "mapped-file"}} },
		func(m *qemu.Machine) { m.Arch = "riscv64" },
		func(m *qemu.Machine) { m.Disks = make([]qemu.Disk, 27) },
	} {
		x := *m
		bad(&x)
		if _, err := domainXML(&x, owner{}, "u", sockets{}, shape{}); err == nil {
			t.Error("a machine that libvirt cannot say was described")
		}
	}
}

func TestSettings(t *testing.T) {
	s := env.Spec{Name: "vm", Driver: name, Settings: map[string]string{"type": "qemu", "io": "native", "cache": "none",
		"uri": systemURI, "firmware": "efi", "machine": "pc", "bus": "ide"}}
	got, err := translate(s)
	if err != nil || !maps.Equal(got, map[string]string{"accel": "tcg", "aio": "native", "cache": "none",
		"machine": "pc"}) {
		t.Errorf("%v, %v", got, err)
	}
	m := &manager{virsh: virsh{uri: systemURI}, given: s.Settings, firmware: "efi", bus: "ide"}
	shown := m.Settings(map[string]string{"accel": "tcg", "aio": "native", "cache": "none", "tcg": "auto",
		"machine": "pc",
		"cpus":    "2"})
	want := map[string]string{"type": "qemu", "io": "native", "cache": "none", "uri": systemURI, "firmware": "efi",
		"machine": "pc", "cpus": "2", "bus": "ide"}
	if !maps.Equal(shown, want) {
		t.Errorf("shown are %v, want %v", shown, want)
	}
	for _, k := range mountKinds() {
		in := env.Spec{Name: "vm", Driver: name}
		bad := env.Spec{Name: "m", Driver: k.Name, Settings: map[string]string{"format": "vhdx",
			"security_model": "mapped-file", "dax": "1GiB"}}
		if k.Name != "tmpfs" && k.CheckAll(in, bad) == nil {
			t.Errorf("%s takes what libvirt cannot say", k.Name)
		}
		if in.Arg = "web"; (k.CheckAll(in, env.Spec{Name: "m", Driver: k.Name}) == nil) != (k.Name == "dir") {
			t.Errorf("mount %s of a domain that exists", k.Name)
		}
	}
}
