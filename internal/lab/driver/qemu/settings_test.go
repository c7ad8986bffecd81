package qemu

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
)

func TestIssueExampleIsUnderstood(t *testing.T) {
	s, err := env.ParseSpec("vm=qemu?accel=tcg&cpus=2&nic=e1000&arch=x86_64")
	if err != nil {
		t.Fatal(err)
	}
	if err := env.NewRegistry(Infos()...).Check(s); err != nil {
		t.Fatal(err)
	}
	c, err := parse(&s)
	if err != nil || c.accel != "tcg" || c.cpus != 2 || c.nic != "e1000" || c.machine != "q35" || c.memory != 1<<30 ||
		c.disk != 1<<30 {
		t.Errorf("%+v %v", c, err)
	}
	required, _ := c.modules()
	if !slices.Contains(required, "e1000") {
		t.Errorf("the card's driver is not asked for: %v", required)
	}
}

func TestImpossibleSettingsAreRefusedWithWhatToDo(t *testing.T) {
	foreign := "arm64"
	if runtime.GOARCH == "arm64" {
		foreign = "x86_64"
	}
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{[]string{"accel", "kvm", "arch", foreign}, "use accel=tcg"},
		{[]string{"arch", "x86_64", "machine", "virt"}, "machine=q35"},
		{[]string{"arch", "arm64", "machine", "microvm"}, "machine=virt"},
		{[]string{"arch", "x86_64", "machine", "microvm", "nic", "e1000"}, "nic=virtio"},
		{[]string{"arch", "x86_64", "machine", "microvm", "nic", "e1000", "net", "tap"}, "nic=virtio"},
		{[]string{"nic", "none", "net", "bridge"}, "use nic=virtio or nic=e1000"},
		{[]string{"net", "host"}, "not one of user, tap, bridge, macvtap"},
		{[]string{"vhost", "on"}, "vhost=on needs net=tap, net=bridge or net=macvtap"},
		{[]string{"vhost", "on", "nic", "virtio", "net", "user"}, "vhost=on needs net=tap"},
		{[]string{"vhost", "on", "nic", "e1000", "net", "tap"}, "vhost=on is for nic=virtio"},
		{[]string{"aio", "native"}, "cache=none"},
		{[]string{"disk", "none", "iothread", "on"}, "give the disk a size"},
		{[]string{"arch", "x86_64", "accel", "tcg", "machine", "microvm", "iothread", "on"}, "use machine=q35"},
		{[]string{"accel", "tcg", "cpu", "host"}, "cpu=max"},
		{[]string{"cpus", "0"}, "1 to 255"},
		{[]string{"cpus", "two"}, "1 to 255"},
		{[]string{"memory", "1MiB"}, "at least 128MiB"},
		{[]string{"memory", "512.5MiB"}, "whole number of MiB"},
		{[]string{"disk", "1MiB"}, "at least 32MiB"},
		{[]string{"disk", "nine"}, "not a size"},
		{[]string{"boot", "1ms"}, "1s to 1h"},
		{[]string{"cpu", "max,-device,x y"}, "CPU model"},
		{[]string{"append", "a\nb"}, "printable"},
		{[]string{"cache", "writeback "}, "did you mean \"writeback\""},
		{[]string{"colour", "red"}, "no setting"},
	} {
		s := spec(c.settings...)
		if _, err := parse(&s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v gives: %v, want %q", c.settings, err, c.want)
		}
	}
}

func TestEveryDefaultPassesItsOwnCheck(t *testing.T) {
	s := spec()
	c, err := parse(&s)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range settings() {
		v, shown := c.shown[d.Name]
		if !shown && d.Name != "boot" {
			t.Errorf("setting %s is not among the facts", d.Name)
		}
		if shown && d.Check != nil {
			if err := d.Check(v); err != nil {
				t.Errorf("default of %s: %v", d.Name, err)
			}
		}
		if d.Doc == "" || !strings.HasSuffix(d.Doc, ".") {
			t.Errorf("setting %s has no sentence: %q", d.Name, d.Doc)
		}
	}
}

// The table in qemu-options.hx: the meaning of cache= for a block device.
func TestCacheModesMeanWhatQEMUSays(t *testing.T) {
	for mode, want := range map[string]struct{ writeback, direct, noFlush bool }{
		"writeback": {true, false, false}, "none": {true, true, false}, "writethrough": {false, false, false},
		"directsync": {false, true, false}, "unsafe": {true, false, true},
	} {
		s := spec("cache", mode)
		c, err := parse(&s)
		if err != nil {
			t.Fatal(err)
		}
		args := c.arguments("tcg", files{disk: filepath.Join("a,b", `c"d`)})
		var dev struct {
			Cache struct {
				Direct  bool `json:"direct"`
				NoFlush bool `json:"no-flush"`
			}
			File struct{ Filename string }
		}
		if err := json.Unmarshal([]byte(args[slices.Index(args, "-blockdev")+1]), &dev); err != nil {
			t.Fatal(err)
		}
		if dev.Cache.Direct != want.direct || dev.Cache.NoFlush != want.noFlush ||
			dev.File.Filename != filepath.Join("a,b", `c"d`) {
			t.Errorf("%s: %+v", mode, dev)
		}
		if wc := slices.ContainsFunc(args, func(a string) bool {
			return strings.HasSuffix(a,
				"write-cache=on")
		}); wc != want.writeback {
			t.Errorf("%s: the guest sees a write cache: %v", mode, wc)
		}
	}
}

// The thread of a disk is there before the disk that it serves.
func TestScratchDiskHasAThread(t *testing.T) {
	s := spec("iothread", "on")
	c, err := parse(&s)
	if err != nil {
		t.Fatal(err)
	}
	args := c.arguments("tcg", files{disk: "scratch"})
	thread := slices.Index(args, "iothread,id=scratch-io")
	disk := slices.IndexFunc(args, func(a string) bool {
		return strings.HasPrefix(a, "virtio-blk-pci,id=scratch,") && strings.HasSuffix(a, ",iothread=scratch-io")
	})
	if thread < 1 || args[thread-1] != "-object" || disk < thread {
		t.Errorf("%q", args)
	}
}

func TestAcceleratorsAreRemembered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "accel.json")
	m := openMemory(path)
	key := m.key("kvm", "q35", "7.2")
	if works, reason := m.recall(key); works || reason != "" {
		t.Errorf("an empty memory says %v, %q", works, reason)
	}
	m.keep(key, "no handshake")
	if works, reason := openMemory(path).recall(key); works || reason != "no handshake" {
		t.Errorf("it says %v, %q", works, reason)
	}
	m.keep(key, "")
	if works, _ := openMemory(path).recall(key); !works {
		t.Error("it forgot that it works")
	}
	if works, reason := m.recall(m.key("kvm", "q35", "8.0")); works || reason != "" {
		t.Error("another QEMU is not another trial")
	}
	m.entries[key] = outcome{Reason: "x", When: time.Now().Add(-forget - time.Minute)}
	if works, reason := m.recall(key); works || reason != "" {
		t.Error("an old outcome is believed")
	}
}

// TestPatienceForASlowBoot: a boot that may take an hour is not cancelled by the code that opens the machine.
func TestPatienceForASlowBoot(t *testing.T) {
	info := Infos()[0]
	for boot, want := range map[string]time.Duration{"": 3 * time.Minute, "2s": 3 * time.Minute,
		"40m": 81 * time.Minute, "never": 3 * time.Minute} {
		s := spec()
		if boot != "" {
			s = spec("boot", boot)
		}
		if got := info.Patience(s, 3*time.Minute); got != want {
			t.Errorf("boot=%q: %v, want %v", boot, got, want)
		}
	}
	if got := (&env.Info{}).Patience(spec("boot", "40m"), time.Minute); got != time.Minute {
		t.Errorf("a driver without such a setting: %v", got)
	}
}

// Filling a tmpfs that is larger than the machine's memory would crash the machine.
func TestMemoryThatTheMachineLacksIsRefused(t *testing.T) {
	for _, c := range []struct{ memory, size, want string }{
		{"512MiB", "1GiB", "machine's memory of 512MiB"}, {"", "2GiB", "machine's memory of 1GiB"},
		{"512MiB", "512MiB", ""}, {"512MiB", "99%", ""}, {"4GiB", "2GiB", ""},
	} {
		in := spec()
		if c.memory != "" {
			in = spec("memory", c.memory)
		}
		r := env.NewRegistry(Infos()...)
		err := r.CheckMountIn("vm:mem", in, env.Spec{Name: "mem", Driver: "tmpfs",
			Settings: map[string]string{"size": c.size}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %s: %v", c.size, c.memory, err)
		}
	}
}

// The guest reaches what the host reaches only in runs whose workloads or mounts need it.
func TestNetworkIsRestrictedUnlessNeeded(t *testing.T) {
	s := spec("arch", "x86_64", "nic", "virtio")
	c, err := parse(&s)
	if err != nil {
		t.Fatal(err)
	}
	for peer, want := range map[bool]string{false: "user,id=net,restrict=on", true: "user,id=net,restrict=off"} {
		b := &boot{config: c}
		b.Spec, b.Peer, b.shares = s, peer, &shares{}
		line := strings.Join(c.arguments("tcg", files{extras: b.extras()}), " ")
		if !strings.Contains(line, want) || strings.Contains(line, guestabi.NetworkArg) != peer {
			t.Errorf("work on the network: %v, QEMU is told %s", peer, line)
		}
	}
	bare := spec("arch", "x86_64")
	b := &boot{}
	b.Spec, b.Peer, b.shares = bare, true, &shares{}
	if x := b.extras(); x.peer || x.network || reach(bare) == nil {
		t.Errorf("without a card: %+v, %v", x, reach(bare))
	}
}

// A mount that is served on the host's loopback has no way through a network of the run's own.
func TestMountsByANetworkThatIsNotThereAreRefused(t *testing.T) {
	r := env.NewRegistry(Infos()...)
	for mount, byNetwork := range map[string]bool{
		"smb": true, "sshfs": true, "rsync": true, "nfs?server=ganesha": true, "nfs?server=vm": false, "9p": false,
		"virtiofs": false, "tmpfs": false, "disk": false,
	} {
		for net, refused := range map[string]bool{"": false, "user": false, "tap": byNetwork, "macvtap": byNetwork} {
			m, in := mountSpecs(t, "m="+mount)[0], spec("nic", "virtio")
			if net != "" {
				in.Settings["net"] = net
			}
			err := r.CheckMountIn("vm:m", in, m)
			if (err != nil) != refused || err != nil && (!strings.Contains(err.Error(), "does not reach") ||
				!strings.Contains(err.Error(), "use net=user")) {
				t.Errorf("%s with net=%s: %v", mount, net, err)
			}
		}
	}
}
