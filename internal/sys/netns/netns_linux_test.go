package netns

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newSpace(t *testing.T) *Space {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("network namespaces need root")
		}
		t.Skip("network namespaces need root")
	}
	s, err := New(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// in does steps in a space.
func in(t *testing.T, s *Space, steps ...func() error) {
	t.Helper()
	for i, step := range steps {
		if err := s.Do(step); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

func cards(t *testing.T) string {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// holders are the processes that have something in a namespace, by its number.
func holders(t *testing.T, number string) (all []string) {
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

// TestTwoSpacesByWayOfABridge sends from one namespace to another, through a pair of cards and a bridge.
func TestTwoSpacesByWayOfABridge(t *testing.T) {
	near, far := newSpace(t), newSpace(t)
	before := cards(t)
	number, err := os.Readlink(near.File())
	if err != nil || len(holders(t, number)) == 0 {
		t.Fatalf("nobody is in the namespace %s, %v", number, err)
	}
	if mine, _ := os.Readlink("/proc/thread-self/ns/net"); mine == number || near.File() == far.File() {
		t.Errorf("namespaces %s and %s; this process is in %s", near.File(), far.File(), mine)
	}
	in(t, near,
		func() error { return Bridge("br0") },
		func() error { return Veth("port0", "eth0", far) },
		func() error { return Join("br0", "port0") },
		func() error { return Up("port0", "") },
		func() error { return Up("br0", "10.9.8.1") })
	in(t, far, func() error { return Up("eth0", "10.9.8.2") })
	var l net.Listener
	in(t, far, func() (err error) { l, err = net.Listen("tcp4", "10.9.8.2:0"); return err })
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			fmt.Fprint(c, "hello from ", c.RemoteAddr().(*net.TCPAddr).IP)
			c.Close()
		}
	}()
	in(t, near, func() error {
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		if said, err := io.ReadAll(c); err != nil || string(said) != "hello from 10.9.8.1" {
			return fmt.Errorf("the other namespace says %q, %w", said, err)
		}
		return nil
	})
	if now := cards(t); now != before {
		t.Errorf("the machine has the cards %s, before it had %s", now, before)
	}
	for range 2 {
		near.Close()
	}
	if !near.Closed() || far.Closed() {
		t.Error("the wrong namespace is closed")
	}
	left := holders(t, number)
	for end := time.Now().Add(time.Minute); len(left) > 0 && time.Now().Before(end); left = holders(t, number) {
		time.Sleep(5 * time.Millisecond) // a thread ends a moment after it was told to
	}
	if len(left) > 0 {
		t.Errorf("still in the closed namespace: %v", left)
	}
}

// TestTapAndMacvtap reads at the other end what a card sends.
func TestTapAndMacvtap(t *testing.T) {
	s := newSpace(t)
	const mac = "52:54:00:12:34:56"
	for name, open := range map[string]func() (*os.File, error){
		"tap": func() (*os.File, error) { return Tap("tap0") },
		"macvtap": func() (*os.File, error) {
			if err := errors.Join(Veth("low0", "low1", s), Up("low0", ""), Up("low1", "10.9.7.1")); err != nil {
				return nil, err
			}
			return Macvtap("tap1", "low0", mac)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var end *os.File
			in(t, s, func() (err error) { end, err = open(); return err })
			defer end.Close()
			card, network := "tap0", "10.9.6"
			if name == "macvtap" {
				card, network = "tap1", "10.9.7"
			}
			in(t, s, func() error {
				if name == "macvtap" {
					at, err := net.InterfaceByName(card)
					if err != nil || at.HardwareAddr.String() != mac {
						return fmt.Errorf("the card is %+v, %w", at, err)
					}
					return Up(card, "")
				}
				return Up(card, network+".1")
			}, func() error {
				// Nobody answers, but the question for the hardware address is a packet.
				c, err := net.Dial("udp4", network+".9:9")
				if err != nil {
					return err
				}
				defer c.Close()
				_, err = c.Write([]byte("x"))
				return err
			})
			const header, ethernet, arp = 10, 14, 0x0806
			for b := make([]byte, 2048); ; {
				poll := []unix.PollFd{{Fd: int32(end.Fd()), Events: unix.POLLIN}}
				if n, err := unix.Poll(poll, 30_000); err == unix.EINTR {
					continue
				} else if n != 1 {
					t.Fatalf("no packet comes: %v", err)
				}
				n, err := end.Read(b)
				if err != nil {
					t.Fatal(err)
				}
				if n > header+ethernet && int(b[header+12])<<8|int(b[header+13]) == arp {
					return
				}
			}
		})
	}
	if _, err := os.Stat("/sys/class/net/tap0"); err == nil {
		t.Error("the machine has a card tap0")
	}
}

func TestWhatCannotBeIsSaid(t *testing.T) {
	s := newSpace(t)
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"no card":      {func() error { return Up("none0", "") }, "bring up network card none0: no such device"},
		"no address":   {func() error { return Up("lo", "here") }, `"here" is not an IPv4 address`},
		"no kind":      {func() error { return newCard("wormhole", "w0", nil) }, "make network card w0, a wormhole"},
		"no bridge":    {func() error { return Join("none0", "lo") }, "make network card lo a port of none0"},
		"nothing low":  {func() error { _, err := Macvtap("m0", "none0", "52:54:00:12:34:56"); return err }, "none0"},
		"not hardware": {func() error { _, err := Macvtap("m0", "lo", "here"); return err }, "hardware address"},
	} {
		if err := s.Do(c.do); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if err := s.Do(func() error { return newCard("wormhole", "w0", nil) }); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("an unknown kind of card: %v", err)
	}
}

// TestChildrenOutliveASpace: the thread of a namespace may have started processes before, which are to be killed when
// their parent dies. Closing the namespace is no such death.
func TestChildrenOutliveASpace(t *testing.T) {
	newSpace(t) // or this test has no right to make one
	s := &Space{calls: make(chan func()), gone: make(chan struct{})}
	made, child := make(chan error, 1), make(chan int, 1)
	go func() {
		runtime.LockOSThread()
		pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "60"},
			&syscall.ProcAttr{Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}})
		if err != nil {
			t.Error(err)
		}
		child <- pid
		s.live(unix.CLONE_NEWNS, made)
	}()
	pid := <-child
	if err := <-made; err != nil || pid <= 0 {
		t.Fatal(err)
	}
	defer func() {
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil)
	}()
	s.Close()
	time.Sleep(200 * time.Millisecond) // a thread ends a moment after it was told to
	if got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); got != 0 || err != nil {
		t.Errorf("the child has ended with the namespace: %d, %v", got, err)
	}
}
