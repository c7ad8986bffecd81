//go:build unix

package sock_test

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// TestDeadlinesOutlastSignals: Go's runtime interrupts a thread that waits without its knowledge every few
// milliseconds, and the kernel's deadline begins anew with each wait.
func TestDeadlinesOutlastSignals(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const deadline = 300 * time.Millisecond
	block := make([]byte, 64<<10)
	for name, wait := range map[string]func(fd sock.FD) error{
		"receive": func(fd sock.FD) error { return sock.Receive(fd, block, 1, deadline) },
		"send":    func(fd sock.FD) error { return sock.Send(fd, block, 1<<40) }, // nobody reads it
		"lanes": func(fd sock.FD) error {
			return sock.NewLanes([]sock.Lane{{FD: fd, Block: block}}).Move(0, 1, deadline)
		},
		"get": func(fd sock.FD) error { _, _, err := sock.Get(fd, block); return err },
	} {
		t.Run(name, func(t *testing.T) {
			at, err := sock.ParseAddress(l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			fd, err := at.TCP()
			if err != nil {
				t.Fatal(err)
			}
			defer sock.Close(fd)
			if err := sock.Connect(fd, &at, time.Minute); err != nil {
				t.Fatal(err)
			}
			other, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			if err := sock.Limit(fd, deadline); err != nil {
				t.Fatal(err)
			}
			defer thread.Room(1)()
			stuck := time.AfterFunc(30*time.Second, func() { sock.Shut(fd) })
			defer stuck.Stop()
			ended := make(chan error, 1)
			began := time.Now()
			go func() { ended <- wait(fd) }()
			// The scheduler looks at a thread that runs for long only while something else is to be done.
			for {
				select {
				case err := <-ended:
					if took := time.Since(began); err != sock.ErrStalled || took < deadline {
						t.Errorf("%v after %v", err, took)
					}
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
}

// TestAddressesAreNumeric: a name may mean another machine at the other end.
func TestAddressesAreNumeric(t *testing.T) {
	for _, bad := range []string{"localhost:80", "127.0.0.1", "127.0.0.1:0", "[fe80::1%lo]:80", ""} {
		if _, err := sock.ParseAddress(bad); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
	for _, good := range []string{"127.0.0.1:80", "[::ffff:127.0.0.1]:80", "[2001:db8::7]:5201"} {
		at, err := sock.ParseAddress(good)
		if err != nil {
			t.Errorf("%s: %v", good, err)
		}
		if fd, err := at.TCP(); err == nil {
			sock.Close(fd)
		}
	}
	if fd, _, err := sock.Listen(netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		t.Error(err)
	} else {
		sock.Close(fd)
	}
}
