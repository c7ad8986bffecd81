package line

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal makes a pseudo terminal, which begins as every terminal does: with echo and editing of lines.
func terminal(t *testing.T) (master *os.File, name string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n uint32
	raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetUint32(int(fd), unix.TIOCGPTN)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return master, fmt.Sprintf("/dev/pts/%d", n)
}

func TestDevicePassesEveryByte(t *testing.T) {
	master, name := terminal(t)
	dev, err := OpenDevice(name, 115200)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, way := range [][2]*os.File{{dev, master}, {master, dev}} {
		if _, err := way[0].Write(all); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(all))
		if _, err := io.ReadFull(way[1], got); err != nil || !bytes.Equal(got, all) {
			t.Errorf("%v: %x", err, got)
		}
	}
	// A read that waits ends when the device is closed.
	ended := make(chan error, 1)
	go func() { _, err := dev.Read(make([]byte, 1)); ended <- err }()
	dev.Close()
	if err := <-ended; err == nil {
		t.Error("a closed device was read")
	}
	if _, err := OpenDevice("/dev/null", 9600); err == nil {
		t.Error("/dev/null is a serial device")
	}
	if _, err := OpenDevice("/dev/no-such-port", 9600); err == nil {
		t.Error("a device that is not there was opened")
	}
}

func TestSessionOverADevice(t *testing.T) {
	master, name := terminal(t)
	dev, err := OpenDevice(name, 115200)
	if err != nil {
		t.Fatal(err)
	}
	l := Listen(master)
	defer l.Close()
	host, err := Dial(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, host, guest, 1<<20)
	t.Logf("%+v %v", host.Speed(), host.Facts())
	done := make(chan struct{})
	go func() { defer close(done); guest.Close() }()
	if err := host.Close(); err != nil {
		t.Error(err)
	}
	<-done
}
