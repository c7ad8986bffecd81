package qemu

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/lab/microvm"
	"tare/internal/sys/netns"
	"tare/internal/sys/proc"
)

// outside is what the machine shows of its network: cards, addresses, routes, and rules of a packet filter.
func outside(t *testing.T) string {
	t.Helper()
	cards, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, c := range cards {
		addresses, err := c.Addrs()
		fmt.Fprintln(&b, c.Index, c.Name, c.Flags, addresses, err)
	}
	for _, name := range []string{"route", "fib_trie", "ip_tables_names"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + name)
		fmt.Fprintf(&b, "%s %s %v\n", name, text, err != nil)
	}
	return b.String()
}

// carried are the bytes that a card has received and sent.
func carried(t *testing.T, s *netns.Space, card string) (bytes [2]int64) {
	t.Helper()
	var text []byte
	err := s.Do(func() (err error) { text, err = os.ReadFile("/proc/thread-self/net/dev"); return err })
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		if f := strings.Fields(rest); name == card && len(f) > 8 {
			bytes[0], _ = strconv.ParseInt(f[0], 10, 64)
			bytes[1], _ = strconv.ParseInt(f[8], 10, 64)
			return bytes
		}
	}
	t.Fatalf("there is no card %s in\n%s", card, text)
	return bytes
}

// netnsHolders are the threads in a network namespace, by its number.
func netnsHolders(t *testing.T, number string) (all []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if is, err := os.Readlink(l); err == nil && is == number {
			all = append(all, l)
		}
	}
	return all
}

// TestNetworksOfTheRunsOwn boots a machine on each kind of network, and has its work reach the peer by it.
func TestNetworksOfTheRunsOwn(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Generic)
	if os.Geteuid() != 0 {
		lacking(t, "network namespaces need root")
	}
	for _, c := range []struct{ net, nic, kernel string }{
		{netTap, "", microvm.Cloud}, {netBridge, "e1000", microvm.Generic}, {netMacvtap, "virtio", microvm.Cloud},
	} {
		t.Run(c.net, func(t *testing.T) {
			if c.net == netBridge {
				repeats(t) // of TestAFailedOpeningLeavesNoNetwork
			}
			needBeside(t, "amd64", c.kernel) // the turn is the whole test's
			before := outside(t)
			s := spec("arch", "x86_64", "accel", "tcg", "disk", "none", "memory", "256MiB", "kernel", c.kernel, "net",
				c.net)
			want := c.nic
			if c.nic != "" {
				s.Settings["nic"] = c.nic
			} else {
				want = "virtio"
			}
			o := options(t, s)
			o.Peer = true
			v, conn := open(t, driver{}, o)
			f := v.Facts()
			if f.Settings["nic"] != want || f.Settings["net"] != c.net || f.Settings["vhost"] != "off" ||
				!strings.HasPrefix(f.Extra["nic.peer"], want+", a ") {
				t.Errorf("the facts are %v, %q", f.Settings, f.Extra["nic.peer"])
			}
			line := strings.Join(v.argv, " ")
			if strings.Contains(line, "user,id=") || !strings.Contains(line, "tap,id=net,fd=") {
				t.Errorf("QEMU is told %s", line)
			}
			if _, err := v.Loopback(); err == nil || !strings.Contains(err.Error(), "net=user") {
				t.Errorf("the host's loopback: %v", err)
			}
			used := carried(t, v.network.spaces[0], tapCard)
			envtest.Network(t, v, conn, o.Agents)
			now := carried(t, v.network.spaces[0], tapCard)
			for i, way := range []string{"received", "sent"} {
				if now[i]-used[i] < 2<<20 {
					t.Errorf("the card has %s %d bytes only", way, now[i]-used[i])
				}
			}
			if after := outside(t); after != before {
				t.Errorf("the machine's network was\n%s\nand is\n%s", before, after)
			}
			number, err := os.Readlink(v.network.spaces[0].File())
			if err != nil || len(netnsHolders(t, number)) == 0 {
				t.Errorf("nobody is in the namespace %s, %v", number, err)
			}
			if err := v.Close(); err != nil {
				t.Error(err)
			}
			if left := staying(func() []string { return netnsHolders(t, number) }); len(left) > 0 {
				t.Errorf("still in the namespace of the closed machine: %v", left)
			}
		})
	}
}

// networkVictim makes a network and says what became of it.
func networkVictim(o order) int {
	c, err := parse(&o.Spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	n, remedy, err := makeNetwork(&c)
	n.close()
	fmt.Println(err, "|", remedy)
	if remedy, err = canNetwork(&c); err == nil {
		fmt.Println("it can")
	} else {
		fmt.Println(err, "|", remedy)
	}
	return 0
}

// TestNetworkWithoutTheRights has a user who is not root ask for each network.
func TestNetworkWithoutTheRights(t *testing.T) {
	if os.Geteuid() != 0 {
		lacking(t, "only root can become another user")
	}
	t.Parallel()
	for _, net := range []string{netTap, netBridge, netMacvtap} {
		text, err := json.Marshal(order{Spec: spec("net", net), Network: true})
		if err != nil {
			t.Fatal(err)
		}
		cmd := proc.Command(t.Context(), "/proc/self/exe")
		cmd.Env, cmd.Dir = append(os.Environ(), victimVar+"="+string(text)), "/"
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		out, err := proc.RunCmd(cmd, nil)
		said := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err != nil || len(said) != 2 {
			t.Fatalf("%v: %s", err, out)
		}
		for _, line := range said {
			why, remedy, _ := strings.Cut(line, " | ")
			if !strings.HasSuffix(why, "not permitted") && !strings.HasSuffix(why, "permission denied") ||
				!strings.Contains(remedy, "run tare as root") || !strings.Contains(remedy, "CAP_NET_ADMIN") ||
				!strings.Contains(remedy, "net=user") {
				t.Errorf("net=%s: %s", net, line)
			}
		}
	}
}

// TestVhost boots a machine with vhost where this kernel has it, and requires what to do where it does not.
func TestVhost(t *testing.T) {
	t.Parallel()
	s := spec("arch", "x86_64", "accel", "tcg", "disk", "none", "memory", "256MiB", "net", netTap, "vhost", "on")
	if _, err := os.Stat(vhostDevice); err != nil {
		needBeside(t, "amd64", microvm.Cloud)
		x := fails(t, driver{}, options(t, s))
		if x.Op != "make network net=tap" || !errors.Is(x.Err, os.ErrNotExist) ||
			!strings.Contains(x.Error(), "open /dev/vhost-net: no such file or directory; load the kernel's module: "+
				"modprobe vhost_net; without it use vhost=off") {
			t.Errorf("it says %v", x)
		}
		if is := has(t.Context(), s); is.OK || !strings.Contains(is.Remedy, "modprobe vhost_net") {
			t.Errorf("before the run is said %+v", is)
		}
		return
	}
	need(t, "amd64", microvm.Cloud)
	o := options(t, s)
	o.Peer = true
	v, conn := open(t, driver{}, o)
	envtest.Network(t, v, conn, o.Agents)
	names := []string{}
	times, err := proc.ThreadTimes(v.Pid())
	for thread := range times {
		names = append(names, thread.Name)
	}
	for _, pid := range v.Servers() {
		names = append(names, proc.Name(pid))
	}
	if want := fmt.Sprintf("vhost-%d", v.Pid()); err != nil || !slices.Contains(names, want) ||
		v.Facts().Settings["vhost"] != "on" {
		t.Errorf("what works for the machine is %v, without %s, %v", names, want, err)
	}
}

// TestVhostIsPassedToQEMU starts a command in the place of QEMU, which shows that it has got what it is told of.
func TestVhostIsPassedToQEMU(t *testing.T) {
	tap, vhost, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := &link{id: "net", hardware: guestHardware, file: tap, tap: true, vhost: vhost}
	defer l.close()
	s := spec("arch", "x86_64", "net", netTap, "vhost", "on")
	c, err := parse(&s)
	if err != nil || c.nic != "virtio" || !c.vhost {
		t.Fatalf("%+v, %v", c, err)
	}
	cmd := proc.Command(context.Background(), "sh", "-c", "readlink /proc/self/fd/3 /proc/self/fd/4")
	l.give(cmd)
	line := strings.Join(c.arguments("tcg", files{extras: extras{card: l}}), " ")
	for _, want := range []string{" -netdev tap,id=net,fd=3,vhost=on,vhostforce=on,vhostfd=4 ",
		" -device virtio-net-pci,netdev=net,mac=52:54:00:12:34:56,romfile= "} {
		if !strings.Contains(line, want) {
			t.Errorf("QEMU is told %s, not %s", line, want)
		}
	}
	out, err := proc.RunCmd(cmd, nil)
	if lines := strings.Fields(string(out)); err != nil || len(lines) != 2 || lines[0] != lines[1] ||
		!strings.HasPrefix(lines[0], "pipe:") {
		t.Errorf("it has got %s, %v", out, err)
	}
}

// TestKernelThreadsAreKnownByName reads a copy of what Linux 6.1 shows of a vhost's thread, beside a program that took
// its name.
func TestKernelThreadsAreKnownByName(t *testing.T) {
	folder := t.TempDir()
	for id, files := range map[string][2]string{
		"20": {"vhost-17\n", ""}, "21": {"vhost-17\n", "00400000-0040b000 r-xp 00000000 08:01 1 /bin/cat\n"},
		"22": {"vhost-171\n", ""}, "net": {"vhost-17\n", ""},
	} {
		dir := filepath.Join(folder, id)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "comm"), []byte(files[0]), 0o644),
			os.WriteFile(filepath.Join(dir, "maps"), []byte(files[1]), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if is := kernelThreads(folder, "vhost-17"); !slices.Equal(is, []int{20}) {
		t.Errorf("the threads are %v", is)
	}
	// On this machine, one that each Linux has.
	if is := kernelThreads("/proc", proc.Name(2)); !slices.Equal(is, []int{2}) {
		t.Errorf("the threads called %s are %v", proc.Name(2), is)
	}
}

// TestAFailedOpeningLeavesNoNetwork has an opening fail after its network was made. It is not parallel, so that this
// process has no other namespaces meanwhile.
func TestAFailedOpeningLeavesNoNetwork(t *testing.T) {
	needBeside(t, "amd64", microvm.Cloud)
	if os.Geteuid() != 0 {
		lacking(t, "network namespaces need root")
	}
	own, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	others := func() (all []string) {
		tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range tasks {
			if is, err := os.Readlink(l); err == nil && is != own {
				all = append(all, l)
			}
		}
		return all
	}
	s := spec("arch", "x86_64", "accel", "tcg", "disk", "none", "net", netBridge)
	c, err := parse(&s)
	if err != nil {
		t.Fatal(err)
	}
	n, _, err := makeNetwork(&c)
	if err != nil {
		t.Fatal(err)
	}
	if here := others(); len(here) != 2 {
		t.Errorf("the namespaces of a network are %v", here)
	}
	n.close()
	n.close()
	o := options(t, s)
	if left := staying(others); len(left) > 0 { // a thread ends a moment after it was told to
		t.Errorf("after the network was closed there is %v", left)
	}
	o.Dir = filepath.Join(o.Dir, "none")
	e, err := driver{}.Open(t.Context(), o)
	if err == nil {
		e.Close()
		t.Fatal("it opens without a folder")
	}
	if x, ok := errors.AsType[*env.OpenError](err); !ok || x.Op != "write machine files" {
		t.Errorf("it says %v", err)
	}
	if left := staying(others); len(left) > 0 {
		t.Errorf("after a failed opening there is %v", left)
	}
}

// TestKilledControllerLeavesNoNetwork kills a controller whose machine is on a network of the run's own.
func TestKilledControllerLeavesNoNetwork(t *testing.T) {
	repeats(t)
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	if os.Geteuid() != 0 {
		lacking(t, "network namespaces need root")
	}
	agent, err := agenttest.Store(t).Path("linux", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	o := order{
		Spec: spec("arch", "x86_64", "accel", "tcg", "disk", "none", "memory", "256MiB", "kernel", microvm.Cloud, "net",
			netMacvtap),
		RunID: fmt.Sprintf("killednet%d", os.Getpid()), Dir: t.TempDir(), Agent: agent,
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var spaces []string
	doomed := envtest.Doom(t, patience, []string{victimVar + "=" + string(text)}, func(line string) bool {
		said, ok := strings.CutPrefix(line, "open ")
		if ok {
			spaces = strings.Fields(said)
		}
		return ok
	})
	left := func() (all []string) {
		for _, s := range spaces {
			all = append(all, netnsHolders(t, s)...)
		}
		return all
	}
	if len(spaces) != 2 || len(left()) < 2 || len(processes(t, o.RunID)) == 0 {
		t.Errorf("in the namespaces %v are %v: the search for them does not work", spaces, left())
	}
	doomed.Kill(t)
	if still := staying(func() []string { return processes(t, o.RunID) }); len(still) > 0 {
		t.Errorf("still running: %q", still)
	}
	if still := staying(left); len(still) > 0 {
		t.Errorf("still in the namespaces: %q", still)
	}
}

// networkSpaces are the numbers of the namespaces of a machine's network, each after a space.
func networkSpaces(v *vm) (all string) {
	if v.network == nil {
		return ""
	}
	for _, s := range v.network.spaces {
		number, err := os.Readlink(s.File())
		all += " " + cmp.Or(number, fmt.Sprint(err))
	}
	return all
}
