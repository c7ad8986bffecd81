package serial

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/medium"
	"tare/internal/lab/microvm"
	"tare/internal/sys/proc"
)

// patience bounds every wait. All machines here are emulated, so durations mean nothing.
const patience = 5 * time.Minute

const firmware = "/usr/share/ovmf/OVMF.fd" // of UEFI

// lacking skips a test that needs something that this machine lacks, or fails it if TARE_REQUIRE is set.
func lacking(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

var (
	written sync.Mutex
	pathOf  = map[string]string{} // format -> path
	making  sync.Mutex
	folder  string
)

// interpreted is the ending of an ISO whose kernel the host has unpacked.
const interpreted = "interpreted.iso"

// media returns the medium in a format, which all tests share.
func media(t testing.TB, format string) string {
	t.Helper()
	written.Lock()
	defer written.Unlock()
	if path, ok := pathOf[format]; ok {
		return path
	}
	if s := medium.Probe(t.Context()); !s.OK {
		lacking(t, "%s: %s", s.Detail, s.Remedy)
	}
	found, err := microvm.Find("", "amd64", microvm.Cloud)
	if err != nil {
		k, err := microvm.Fetch(t.Context(), "", "amd64", microvm.Cloud)
		if err != nil {
			lacking(t, "%v", err)
		}
		found = []microvm.Kernel{k}
	}
	path := filepath.Join(shared(t), "medium."+format)
	o := medium.Options{
		Agents: agenttest.Store(t, "linux/amd64"), Kernel: found[0], Common: true,
		// What emulation needs on a busy machine; see package qemu.
		Args: []string{"no_timer_check"}, Interpreted: format == interpreted,
	}
	if !strings.HasSuffix(format, "iso") {
		o.Scratch = scratchSerial
	}
	w, err := medium.Write(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	if o.Interpreted && w.Facts["guest.kernel.entry"] == "" {
		t.Error("the guest would unpack its kernel itself")
	}
	pathOf[format] = path
	return path
}

// machine is a running virtual machine. Package serial knows only its serial port.
type machine struct {
	t    testing.TB
	argv []string
	give *os.File // for the process
	mu   sync.Mutex
	qemu *proc.Stream
	end  context.CancelFunc
}

// start starts QEMU, which ends with the test.
func start(t testing.TB, give *os.File, argv ...string) *machine {
	t.Helper()
	if _, err := proc.LookPath("qemu-system-x86_64"); err != nil {
		lacking(t, "qemu-system-x86_64 is not installed")
	}
	m := &machine{t: t, give: give, argv: append([]string{"qemu-system-x86_64", "-no-user-config", "-nodefaults",
		"-display", "none", "-accel", "tcg", "-cpu", "max", "-m", "384M"}, argv...)}
	m.boot()
	t.Cleanup(m.kill)
	return m
}

func (m *machine) boot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	life, end := context.WithCancel(context.Background())
	cmd := proc.Command(life, m.argv...)
	if m.give != nil {
		cmd.ExtraFiles = []*os.File{m.give}
	}
	var err error
	if m.qemu, err = proc.Start(cmd); err != nil {
		end()
		m.t.Fatal(err)
	}
	m.end = end
}

// kill pulls the plug.
func (m *machine) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := syscall.Kill(m.qemu.Pid(), syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		m.t.Error(err)
	}
	<-m.qemu.Done()
	m.end()
	m.qemu.Close()
}

// asCD and asDisk are QEMU's arguments for the medium. A machine has one of the buses that hypervisors have.
func asCD(path string) []string {
	return []string{"-machine", "q35", "-drive", "if=none,id=m,readonly=on,format=raw,file=" + path,
		"-device", "ide-cd,drive=m"}
}

func asDisk(path, format, machine, device string) []string {
	// Not all of these can be read-only. What is written is discarded.
	return []string{"-machine", machine, "-drive", "if=none,id=m,snapshot=on,format=" + format + ",file=" + path,
		"-device", device + ",drive=m"}
}

// scratchSerial is the serial number of the disk for files; media that are CDs ask for none.
const scratchSerial = "tare-scratch"

// withScratch adds such a disk.
func withScratch(t testing.TB, device string) []string {
	t.Helper()
	f, err := os.CreateTemp(shared(t), "scratch-")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(32 << 20); err != nil {
		t.Fatal(err)
	}
	if _, err := proc.Run(t.Context(), nil, "mke2fs", "-q", "-F", "-t", "ext4", f.Name()); err != nil {
		t.Fatal(err)
	}
	return []string{"-drive", "if=none,id=f,format=raw,file=" + f.Name(), "-device", device + ",drive=f,serial=" +
		scratchSerial}
}

// onSocket connects the serial port to a Unix socket.
func onSocket(path string) []string {
	return []string{"-chardev", "socket,id=s,server=on,wait=off,path=" + path, "-serial", "chardev:s"}
}

// onListener connects the serial port to a socket that listens already: the process's file 3.
func onListener() []string {
	return []string{"-chardev", "socket,id=s,server=on,wait=off,fd=3", "-serial", "chardev:s"}
}

// loopback returns a listening TCP port for a process.
func loopback(t testing.TB) (address string, give *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if give, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { give.Close() })
	return l.Addr().String(), give
}

// await waits until something is there.
func await(t testing.TB, what string, there func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !there(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// connected counts the connections to a Unix socket.
func connected(t testing.TB, path string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		// Num RefCount Protocol Flags Type St Inode Path; the state 03 is "connected"
		if f := strings.Fields(line); len(f) > 7 && f[5] == "03" && strings.HasSuffix(strings.TrimSpace(line), path) {
			n++
		}
	}
	return n
}

// shared returns the folder of all media and sockets. It is short, because the path of a socket is. A controller that
// the suite starts and kills makes none.
func shared(t testing.TB) string {
	t.Helper()
	making.Lock()
	defer making.Unlock()
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "serial-"); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func removeShared() {
	if folder != "" {
		os.RemoveAll(folder)
	}
}
