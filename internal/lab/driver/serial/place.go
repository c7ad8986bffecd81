package serial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"tare/internal/measure/line"
)

// The kinds of places.
const (
	kindSocket = "Unix socket"
	kindTCP    = "TCP port"
	kindPipes  = "pipes" // a pair with the endings .in and .out, as QEMU makes them
	kindPipe   = "named pipe"
	kindDevice = "serial device"
)

// place is where a serial line ends.
type place struct {
	text string
	kind string // empty if the file system must be asked
	path string
	baud int
}

// parse reads a spec's argument. Only loopback addresses are taken unless remote is set: nothing on a serial line is
// encrypted.
func parse(arg string, remote bool) (place, error) {
	p := place{text: arg, path: arg}
	address, tcp := strings.CutPrefix(arg, "tcp:")
	switch {
	case tcp:
		p.kind, p.path = kindTCP, address
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" || port == "" {
			return p, fmt.Errorf("%q is not HOST:PORT", address)
		}
		ip := net.ParseIP(host)
		if !remote && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return p, fmt.Errorf("%s may be another machine, and whoever can reach a serial port can control the "+
				"guest; if that is meant, add remote=yes", host)
		}
	case strings.HasPrefix(arg, `\\.\pipe\`):
		p.kind = kindPipe
	case arg == "":
		return p, errors.New("the place of the serial line is missing")
	}
	return p, nil
}

// there finds out what a path is, without opening it.
func (p *place) there() error {
	if p.kind != "" {
		return nil
	}
	info, err := os.Stat(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		if in, e := os.Stat(p.path + ".in"); e == nil && in.Mode()&fs.ModeNamedPipe != 0 {
			p.kind = kindPipes
			return nil
		}
	}
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket != 0:
		p.kind = kindSocket
	case info.Mode()&fs.ModeCharDevice != 0:
		p.kind = kindDevice
	default:
		return fmt.Errorf("%s is neither a socket nor a serial device", p.path)
	}
	return nil
}

// connectTime bounds a connection.
const connectTime = 10 * time.Second

func (p *place) open(ctx context.Context) (io.ReadWriteCloser, error) {
	if err := p.there(); err != nil {
		return nil, err
	}
	switch p.kind {
	case kindSocket, kindTCP:
		network := "unix"
		if p.kind == kindTCP {
			network = "tcp"
		}
		d := net.Dialer{Timeout: connectTime}
		c, err := d.DialContext(ctx, network, p.path)
		if err != nil {
			return nil, err
		}
		return quickly(c), nil
	case kindPipes:
		return openPipes(p.path)
	case kindPipe:
		return line.OpenDevice(p.path, 0)
	}
	return line.OpenDevice(p.path, p.baud)
}

// pipes are two pipes, one for each direction.
type pipes struct{ in, out *os.File }

// openPipes opens both for reading and writing, which waits for nobody and sees no end.
func openPipes(path string) (io.ReadWriteCloser, error) {
	out, err := os.OpenFile(path+".in", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	in, err := os.OpenFile(path+".out", os.O_RDWR, 0)
	if err != nil {
		out.Close()
		return nil, err
	}
	return &pipes{in, out}, nil
}

func (p *pipes) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p *pipes) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p *pipes) Close() error                { return errors.Join(p.in.Close(), p.out.Close()) }
