//go:build linux

// Command lineguest is the only program of the guest in which bench compares the wire with the port below it. On two
// ports, one with tare's line and one without, it does what is asked: S and a number, to send so many bytes; T and a
// number, to take so many and to answer with one.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/guestabi"
	"tare/internal/measure/line"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("lineguest:", err)
	}
	// The machine ends with its first process.
}

func run() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	order, err := os.ReadFile(guestabi.Order)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(order)) {
		f, err := os.Open(filepath.Join(guestabi.Modules, name))
		if err != nil {
			return err
		}
		if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
			return fmt.Errorf("load %s: %w", name, err)
		}
		f.Close()
	}
	wire, plain, err := ports()
	if err != nil {
		return err
	}
	fmt.Println("ready")
	go serve(plain)
	l := line.Listen(wire)
	for {
		session, err := l.Accept()
		if err != nil {
			return err
		}
		serve(session)
	}
}

// ports opens two virtio-serial ports by their names, or the first two serial ports if there are none.
func ports() (wire, plain io.ReadWriteCloser, err error) {
	found := map[string]string{}
	devices, _ := filepath.Glob("/sys/bus/virtio/drivers/virtio_console/virtio*")
	for len(devices) > 0 && len(found) < 2 { // names come a little after the devices
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, n := range names {
			if text, err := os.ReadFile(n); err == nil {
				found[strings.TrimSpace(string(text))] = filepath.Join("/dev", filepath.Base(filepath.Dir(n)))
			}
		}
	}
	open := func(virtio, tty string) (io.ReadWriteCloser, error) {
		if dev, ok := found[virtio]; ok {
			fd, err := unix.Open(dev, unix.O_RDWR|unix.O_CLOEXEC, 0)
			return patient{os.NewFile(uintptr(fd), dev)}, err
		}
		f, err := line.OpenDevice("/dev/"+tty, 115200)
		_ = os.WriteFile("/sys/class/tty/"+tty+"/rx_trig_bytes", []byte("14"), 0) // as the agent does
		return f, err
	}
	if wire, err = open("line", "ttyS0"); err == nil {
		plain, err = open("plain", "ttyS1")
	}
	return wire, plain, err
}

// patient waits until somebody has the other end.
type patient struct{ *os.File }

func (p patient) Read(b []byte) (int, error) {
	for {
		n, err := p.File.Read(b)
		if err != io.EOF {
			return n, err
		}
		time.Sleep(time.Millisecond)
	}
}

// serve does what is asked until the port ends.
func serve(rw io.ReadWriter) {
	buf := make([]byte, 32<<10)
	for i := range buf {
		buf[i] = byte(i) // each byte as often as the others: a line has to mark some
	}
	var order [9]byte
	for {
		if _, err := io.ReadFull(rw, order[:]); err != nil {
			return
		}
		var step func([]byte) (int, error)
		switch order[0] {
		case 'S':
			step = rw.Write
		case 'T':
			step = rw.Read
		default:
			fmt.Printf("lineguest: %q is no order\n", order)
			return
		}
		for left := binary.LittleEndian.Uint64(order[1:]); left > 0; {
			n, err := step(buf[:min(left, uint64(len(buf)))])
			if err != nil {
				return
			}
			left -= uint64(n)
		}
		if order[0] == 'T' {
			if _, err := rw.Write([]byte{1}); err != nil {
				return
			}
		}
	}
}
