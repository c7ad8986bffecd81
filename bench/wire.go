package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"tare/internal/lab/microvm"
	"tare/internal/measure/line"
	"tare/internal/sys/proc"
)

// wireRows compare the wire over a port of a virtual machine with the port itself.
func wireRows() []row {
	var all []row
	for _, p := range []struct {
		name, what string
		goal       float64
	}{{"uart", "UART", 0.9}, {"virtio", "virtio-serial port", 0}} {
		all = append(all, row{
			name: "wire-" + p.name, what: "bytes through a " + p.what + " of QEMU's under TCG: tare's line",
			peer: "plain reads and writes", programs: []string{"qemu-system-x86_64"},
			figures: []figure{{name: "from the guest", unit: "B/s", goal: p.goal},
				{name: "to the guest", unit: "B/s", goal: p.goal}, {name: "round trip", unit: "s"}},
			open: func(ctx context.Context, b *bench) (*contest, error) { return openWire(ctx, b, p.name) },
		})
	}
	return all
}

// wireBoot bounds the wait for the guest.
const wireBoot = 2 * time.Minute

// openWire boots a guest with two ports of a kind: one for the line, one for plain bytes. Its only program does the
// same on both.
func openWire(ctx context.Context, b *bench, kind string) (_ *contest, err error) {
	if runtime.GOARCH != "amd64" {
		return nil, missing{"the machine q35 is of x86_64, and this is of " + runtime.GOARCH}
	}
	kernels, err := microvm.Find("", runtime.GOARCH, microvm.Cloud)
	if err != nil {
		return nil, missing{err.Error() + "; " + microvm.Remedy(runtime.GOARCH, microvm.Cloud)}
	}
	dir, err := os.MkdirTemp("", "tare-wire-") // not in b.dir: the path of a socket is short
	if err != nil {
		return nil, err
	}
	c := &contest{close: func() error { return os.RemoveAll(dir) }}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	initrd := filepath.Join(dir, "initrd")
	if err := wireInitrd(ctx, initrd, kernels[0]); err != nil {
		return nil, err
	}
	argv := []string{"qemu-system-x86_64", "-no-user-config", "-nodefaults", "-no-reboot", "-display", "none",
		"-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256M",
		"-kernel", kernels[0].Image, "-initrd", initrd, "-append",
		"console=ttyS2 quiet panic=-1 rdinit=/init random.trust_cpu=on no_timer_check cryptomgr.notests"}
	if kind == "virtio" {
		argv = append(argv, "-device", "virtio-serial-pci")
	}
	for _, end := range []string{"line", "plain"} {
		device := []string{"-serial", "chardev:" + end}
		if kind == "virtio" {
			device = []string{"-serial", "none", "-device", "virtserialport,chardev=" + end + ",name=" + end}
		}
		argv = append(append(argv, "-chardev", "socket,id="+end+",server=on,wait=off,path="+filepath.Join(dir, end)),
			device...)
	}
	qemu, err := proc.Start(proc.Command(context.WithoutCancel(ctx), append(argv, "-serial", "stdio")...))
	if err != nil {
		return nil, err
	}
	c.close = func() error {
		err := qemu.Kill()
		qemu.Close()
		return errors.Join(err, os.RemoveAll(dir))
	}
	late := time.AfterFunc(wireBoot, func() { _ = qemu.Kill() })
	said, err := bufio.NewReader(qemu).ReadString('\n')
	if late.Stop(); err != nil || !strings.Contains(said, "ready") {
		return nil, fmt.Errorf("boot the guest: it said %q; %w; %s", said, cmp.Or(err, errors.New("it is not ready")),
			qemu.Diagnose())
	}
	plain, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "plain"))
	if err != nil {
		return nil, err
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "line"))
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, wireBoot)
	defer cancel()
	session, err := line.Dial(within, raw)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { plain.Close(); raw.Close() }) // what waits on them ends
	end := c.close
	c.close = func() error { stop(); plain.Close(); raw.Close(); return end() }
	var sizes [2]int // from and to the guest
	for i := range sizes {
		for sizes[i] = 4 << 10; ; sizes[i] *= 2 {
			if took, err := wireTake(plain, i, sizes[i]); err != nil {
				return nil, err
			} else if took >= b.length {
				break
			}
		}
	}
	c.tare, c.peer = wireSide(session, sizes), wireSide(plain, sizes)
	speed := session.Speed()
	c.notes = []string{
		fmt.Sprintf("both: %d bytes from the guest, %d to it, by the same program in the guest", sizes[0], sizes[1]),
		fmt.Sprintf("the line's own figures, as tare reports them when it opens one: %.0f kB/s from the guest, %.0f "+
			"kB/s to it, round trip %v", speed.FromGuest/1e3, speed.ToGuest/1e3,
			speed.RoundTrip.Round(time.Microsecond)),
		"`" + strings.Join(argv[:13], " ") + " ...`",
	}
	return c, nil
}

// wireInitrd writes the guest's files: the program in bench/lineguest and the modules of virtio-serial ports.
func wireInitrd(ctx context.Context, path string, k microvm.Kernel) error {
	program := path + ".init"
	cmd := proc.Command(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "tare/bench/lineguest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if _, err := proc.RunCmd(cmd, nil); err != nil {
		return fmt.Errorf("build the guest's program: %w", err)
	}
	index, err := microvm.ReadIndex(k.Modules)
	if err != nil {
		return err
	}
	modules, err := index.Resolve("virtio_pci", "virtio_console")
	if err != nil {
		return err
	}
	_, err = microvm.Initramfs(path, microvm.Contents{Agent: program, Kernel: k, Modules: modules})
	return err
}

// wireSide moves the bytes both ways, and makes round trips.
func wireSide(rw io.ReadWriter, sizes [2]int) side {
	return func(context.Context) ([]float64, error) {
		var figures []float64
		for i, size := range sizes {
			took, err := wireTake(rw, i, size)
			if err != nil {
				return nil, err
			}
			figures = append(figures, float64(size)/took.Seconds())
		}
		const trips = 20
		began := time.Now()
		for range trips {
			if _, err := wireTake(rw, 1, 0); err != nil {
				return nil, err
			}
		}
		return append(figures, time.Since(began).Seconds()/trips), nil
	}
}

// wireTake times one order: that the guest sends bytes (0), or takes them and answers with one (1).
func wireTake(rw io.ReadWriter, to, size int) (time.Duration, error) {
	began := time.Now()
	if _, err := rw.Write(binary.LittleEndian.AppendUint64([]byte{"ST"[to]}, uint64(size))); err != nil {
		return 0, err
	}
	wait := size
	if to == 1 {
		if _, err := io.CopyN(rw, allBytes{}, int64(size)); err != nil {
			return 0, err
		}
		wait = 1
	}
	if n, err := io.CopyN(io.Discard, rw, int64(wait)); err != nil {
		return 0, fmt.Errorf("after %s of %d bytes: %w", strconv.FormatInt(n, 10), wait, err)
	}
	return time.Since(began), nil
}

// allBytes reads without end, each byte as often as the others: a line has to mark some.
type allBytes struct{}

func (allBytes) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(i)
	}
	return len(b), nil
}
