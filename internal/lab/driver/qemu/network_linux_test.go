package qemu

import (
	"fmt"
	"net"
	"os"

	"path/filepath"

	"strconv"
	"strings"

	"testing"

	"tare/internal/lab/envtest"
	"tare/internal/lab/microvm"
	"tare/internal/sys/netns"
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
	for _, name := range []string{"route", "fib_trie", "ipv6_route", "ip_tables_names"} {
		text, err := os.ReadFile("/proc/net/" + name)
		if name == "ipv6_route" {
			text = nil // it has counters; the addresses are above
		}
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
	for _, c := range []struct{ net, nic, kernel string }{
		{netTap, "", microvm.Cloud}, {netBridge, "e1000", microvm.Generic}, {netMacvtap, "virtio", microvm.Cloud},
	} {
		t.Run(c.net, func(t *testing.T) {
			t.Parallel()
			need(t, "amd64", c.kernel)
			if os.Geteuid() != 0 {
				lacking(t, "network namespaces need root")
			}
			before := outside(t)
			s := spec("arch", "x86_64", "accel", "tcg", "disk", "none", "memory", "256MiB", "kernel", c.kernel, "net", c.net)
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
			for i, way := range []string{"from the guest", "to the guest"} {
				if now[i]-used[i] < 2<<20 {
					t.Errorf("%s the card has carried %d bytes only", way, now[i]-used[i])
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
			if left := netnsHolders(t, number); len(left) > 0 {
				t.Errorf("still in the namespace of the closed machine: %v", left)
			}
		})
	}
}
