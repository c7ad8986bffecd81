package pid1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/agent"
	"tare/internal/measure/guestabi"
	"tare/internal/measure/line"
)

// patience bounds the wait for a device that the host provides: the kernel probes some of them in the background.
const patience = 20 * time.Second

// portPatience bounds the time until a port has its name on a virtio-serial device that is there. The device may have
// ports of others only.
const portPatience = 2 * time.Second

// Wanted tells whether this process is the first of a micro-VM. The first process of a container has PID 1, too.
func Wanted() bool {
	if os.Getpid() != 1 {
		return false
	}
	_, err := os.Lstat(guestabi.Order)
	return err == nil
}

// Main runs the micro-VM. It does not return, because it powers the machine off at its end. If that is refused, it
// returns 1; the kernel then panics because its first process has ended, which also stops the machine.
func Main() int {
	err := serve()
	if err != nil {
		fmt.Fprintf(os.Stderr, "tare: %v\n", err)
	}
	if err := powerOff(); err != nil {
		fmt.Fprintf(os.Stderr, "tare: %v\n", err)
	}
	return 1
}

func serve() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := mountAll(table); err != nil {
		return err
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return fmt.Errorf("read the kernel's command line: %w", err)
	}
	args := arguments(string(line))
	if err := settle(args[guestabi.HostnameArg]); err != nil {
		return err
	}
	if err := loadModules(); err != nil {
		return err
	}
	dir := "/tmp"
	if serial := args[guestabi.ScratchArg]; serial != "" {
		if err := mountScratch(serial); err != nil {
			return err
		}
		dir = guestabi.Scratch
	}
	linkDisks(serials(args[guestabi.DisksArg]))
	if _, wanted := args[guestabi.NetworkArg]; wanted {
		// Only workloads on the network need it, and they report what is missing.
		var last error
		if await("network card", func() bool { last = agent.NetworkUp(); return last == nil }) != nil {
			fmt.Fprintf(os.Stderr, "tare: bring up the network: %v\n", last)
		}
	}
	root := ""
	if serial := args[guestabi.RootArg]; serial != "" {
		if err := mountRoot(serial, args[guestabi.ScratchArg]); err != nil {
			return err
		}
		root = guestabi.Root
	}
	o := agent.Options{Dir: dir, Mounts: true, Root: root}
	if port := args[guestabi.PortArg]; port != "" {
		return serveLine(port, o)
	}
	var dev string
	err = await("virtio-serial port "+guestabi.Port, func() bool { dev = virtioPort(guestabi.Port); return dev != "" })
	if err != nil {
		return err
	}
	port, err := openPort(dev)
	if err != nil {
		return err
	}
	defer port.Close()
	return agent.Serve(context.Background(), port, port, o)
}

// serveLine serves one controller after another on a line. It never powers the machine off, because the next controller
// may come at any time.
func serveLine(text string, o agent.Options) error {
	port, where, err := openLine(text)
	if err != nil {
		return err
	}
	ready := fmt.Sprintf("tare: waiting for a controller on %s\n", where)
	fmt.Fprint(os.Stderr, ready)
	_ = os.WriteFile("/dev/tty0", []byte(ready), 0) // for whoever looks at the screen, if there is one
	l := line.Listen(port)
	defer l.Close()
	for {
		session, err := l.Accept()
		if err != nil {
			return err
		}
		if err := agent.Serve(context.Background(), session, session, o); err != nil {
			fmt.Fprintf(os.Stderr, "tare: %v\n", err)
		}
		session.Close()
	}
}

// openLine opens the virtio-serial port for the wire if the machine has it, and the serial port that text names if not.
// The first is faster by orders of magnitude, and leaves the second to the console.
func openLine(text string) (port io.ReadWriteCloser, where string, err error) {
	name, baud, err := serialPort(text)
	if err != nil {
		return nil, "", err
	}
	if devices, _ := filepath.Glob("/sys/bus/virtio/drivers/virtio_console/virtio*"); len(devices) > 0 {
		var dev string
		if appears(portPatience, func() bool { dev = virtioPort(guestabi.Port); return dev != "" }) {
			f, err := openPort(dev)
			return patientPort{f}, "virtio-serial port " + guestabi.Port, err
		}
	}
	dev := "/dev/" + name
	if err := await("serial port "+dev, func() bool { return exists(dev) }); err != nil {
		return nil, "", err
	}
	if port, err = line.OpenDevice(dev, baud); err != nil {
		return nil, "", err
	}
	// An interrupt for each 14 bytes that arrive, and not for each 8: a 16550's FIFO has 16. Other chips refuse it.
	_ = os.WriteFile("/sys/class/tty/"+name+"/rx_trig_bytes", []byte("14"), 0)
	return port, fmt.Sprintf("%s, %d baud", name, baud), nil
}

// patientPort is a virtio-serial port that one controller after another uses. While nobody has the host's end, the
// kernel lets writes wait, and reads end.
type patientPort struct{ *os.File }

func (p patientPort) Read(b []byte) (int, error) {
	for {
		n, err := p.File.Read(b)
		if err != io.EOF {
			return n, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// settle sets up what programs expect of a machine. A guest without a loopback device can still run most workloads.
func settle(hostname string) error {
	for k, v := range map[string]string{"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "TMPDIR": "/tmp",
		"LC_ALL": "C"} {
		if err := os.Setenv(k, v); err != nil {
			return err
		}
	}
	if hostname != "" {
		if err := unix.Sethostname([]byte(hostname)); err != nil {
			fmt.Fprintf(os.Stderr, "tare: set host name: %v\n", err)
		}
	}
	if err := loopbackUp(); err != nil {
		fmt.Fprintf(os.Stderr, "tare: bring up the loopback device: %v\n", err)
	}
	return nil
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, r); err != nil {
		return err
	}
	r.SetUint16(r.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// loadModules loads the modules that the host listed, in its order.
func loadModules() error {
	text, err := os.ReadFile(guestabi.Order)
	if err != nil {
		return fmt.Errorf("read list of kernel modules: %w", err)
	}
	modules, err := moduleList(string(text))
	if err != nil {
		return err
	}
	for _, m := range modules {
		err := loadModule(filepath.Join(guestabi.Modules, m.file))
		if err != nil && !m.mayFail {
			return err
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "tare: %v\n", err)
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("load kernel module: %w", err)
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	switch {
	case err == nil, errors.Is(err, unix.EEXIST):
		return nil
	case errors.Is(err, unix.ENOENT):
		// The kernel's error for an unknown symbol, not for a missing file.
		return fmt.Errorf("load kernel module %s: a module it needs was not loaded before it: %w", filepath.Base(path),
			err)
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("load kernel module %s: it was built for another kernel: %w", filepath.Base(path), err)
	case errors.Is(err, unix.ENODEV):
		// Some modules, such as crc32c_intel, load only if their device or instruction exists.
		fmt.Fprintf(os.Stderr, "tare: kernel module %s found no device\n", filepath.Base(path))
		return nil
	}
	return fmt.Errorf("load kernel module %s: %w", filepath.Base(path), err)
}

// virtioPort returns the device of the virtio-serial port of that name; empty if there is none yet.
func virtioPort(name string) string {
	names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
	for _, n := range names {
		dev := filepath.Join("/dev", filepath.Base(filepath.Dir(n)))
		if is(n, name) && exists(dev) {
			return dev
		}
	}
	return ""
}

// openPort opens a virtio-serial port. The file is in blocking mode and so stays out of Go's poller, and this process
// is the only one that holds it: a port whose used buffers are consumed by a poll in one holder leaves a writer in
// another asleep for ever (lmb/vimto#29).
func openPort(dev string) (*os.File, error) {
	fd, err := unix.Open(dev, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open virtio-serial port %s: %w", dev, err)
	}
	return os.NewFile(uintptr(fd), dev), nil
}

// disk waits for the disk with a serial number, or for a device, and returns its device.
func disk(serial string) (dev string, err error) {
	err = await("disk "+serial, func() bool {
		if strings.HasPrefix(serial, "/dev/") || strings.HasPrefix(serial, guestabi.ByLabel) {
			var e error
			dev, e = agent.Device(serial)
			return e == nil && exists(dev)
		}
		// virtio-blk has it in the first place, NVMe in the second, SCSI and ATA in the third.
		for _, place := range []string{"serial", "device/serial", "device/vpd_pg80"} {
			names, _ := filepath.Glob("/sys/block/*/" + place)
			for _, n := range names {
				if is(n, serial) {
					dev = filepath.Join("/dev", strings.Split(n, "/")[3])
					return exists(dev)
				}
			}
		}
		return false
	})
	return dev, err
}

// linkDisks gives disks the names that udev would give them: the kernel finds devices in any order. A missing disk
// matters only to its mount.
func linkDisks(serials []string) {
	for _, serial := range serials {
		dev, err := disk(serial)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(guestabi.Disks+serial), 0o755)
		}
		if err == nil {
			err = os.Symlink(dev, guestabi.Disks+serial)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "tare: name disk: %v\n", err)
		}
	}
}

// mountScratch mounts the disk with a serial number.
func mountScratch(serial string) error {
	dev, err := disk(serial)
	if err != nil {
		return err
	}
	if err := unix.Mount(dev, guestabi.Scratch, "ext4", unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("mount scratch disk %s: %w", dev, err)
	}
	return nil
}

// await polls for a device; it is done before anything is measured.
func await(what string, there func() bool) error {
	if !appears(patience, there) {
		return fmt.Errorf("%s did not appear within %v", what, patience)
	}
	return nil
}

// appears polls for as long as that, once at least.
func appears(patience time.Duration, there func() bool) bool {
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		if there() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// is tells whether a file has that text, after the four bytes that a page of a SCSI disk's data begins with.
func is(file, want string) bool {
	b, err := os.ReadFile(file)
	if err == nil && len(b) > 4 && strings.HasSuffix(file, "vpd_pg80") {
		b = b[4:]
	}
	return err == nil && strings.TrimSpace(string(b)) == want
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// powerOff syncs all file systems and powers the machine off.
func powerOff() error {
	unix.Sync()
	leaveRoot()
	if err := unix.Unmount(guestabi.Scratch, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		// A process still uses it; the journal and the sync must suffice.
		unix.Unmount(guestabi.Scratch, unix.MNT_DETACH)
	}
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		return fmt.Errorf("power off: %w", err)
	}
	return nil
}
