package kvm

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The requests of /dev/kvm that a machine with one processor needs.
const (
	createVM      = 0xae01
	createVCPU    = 0xae41
	run           = 0xae80
	vcpuMapSize   = 0xae04
	setMemory     = 0x4020ae46
	getSregs      = 0x8138ae83
	setSregs      = 0x4138ae84
	setRegs       = 0x4090ae82
	exitIO        = 2
	exitHalt      = 5
	sizeOfSregs   = 312
	sizeOfRegs    = 144
	wroteToPort   = 7
	codeSegment   = 0 // offset of cs in sregs: base, then limit, then selector
	regsRIP       = 16 * 8
	regsFlags     = 17 * 8
	exitReasonAt  = 8
	pageOfMachine = 4096
)

type memory struct {
	slot, flags            uint32
	guest, size, userspace uint64
}

// ioctl asks a device; arg may be nil.
func ioctl(fd int, request uintptr, arg unsafe.Pointer) (int, error) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	}
}

// skipIf skips where err is one of those that say what the machine is or allows, behind the reason; it fails on any
// other.
func skipIf(t *testing.T, reason string, err error, facts ...unix.Errno) {
	t.Helper()
	if slices.ContainsFunc(facts, func(e unix.Errno) bool { return errors.Is(err, e) }) {
		t.Skipf("%s%v", reason, err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// refusals are what a kernel says whose processor another hypervisor has, or whose hypervisor does not nest.
var refusals = []unix.Errno{unix.EBUSY, unix.ENODEV, unix.EOPNOTSUPP}

const refused = "the processor of this machine refuses virtual machines: "

// TestExitsOfAMachine makes a real machine that writes to a port seven times and halts, and reads what KVM says of
// that.
func TestExitsOfAMachine(t *testing.T) {
	kvm, err := unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	skipIf(t, "there is no KVM here: ", err, unix.ENOENT, unix.ENODEV, unix.ENXIO, unix.EACCES, unix.EPERM)
	defer unix.Close(kvm)
	debug := Debug
	if entries, err := os.ReadDir(debug); err != nil || len(entries) == 0 {
		debug = t.TempDir()
		err := unix.Mount("debugfs", debug, "debugfs", unix.MS_RDONLY, "")
		skipIf(t, "debugfs cannot be mounted: ", err, unix.EPERM, unix.EACCES, unix.ENODEV)
		t.Cleanup(func() {
			if err := unix.Unmount(debug, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	runtime.LockOSThread() // a machine's processor belongs to the thread that runs it
	defer runtime.UnlockOSThread()
	vm, err := ioctl(kvm, createVM, nil)
	skipIf(t, refused, err, refusals...)
	defer unix.Close(vm)
	page, err := unix.Mmap(-1, 0, pageOfMachine, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	// Seven times `out %al, $0x10`, then `hlt`.
	code := []byte{}
	for range wroteToPort {
		code = append(code, 0xe6, 0x10)
	}
	copy(page, append(code, 0xf4))
	m := memory{guest: 0x1000, size: pageOfMachine, userspace: uint64(uintptr(unsafe.Pointer(&page[0])))}
	if _, err := ioctl(vm, setMemory, unsafe.Pointer(&m)); err != nil {
		t.Fatal(err)
	}
	cpu, err := ioctl(vm, createVCPU, nil)
	skipIf(t, refused, err, refusals...)
	defer unix.Close(cpu)
	size, err := ioctl(kvm, vcpuMapSize, nil)
	if err != nil {
		t.Fatal(err)
	}
	state, err := unix.Mmap(cpu, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(state)
	var sregs [sizeOfSregs]byte
	if _, err := ioctl(cpu, getSregs, unsafe.Pointer(&sregs)); err != nil {
		t.Fatal(err)
	}
	clear(sregs[codeSegment : codeSegment+8]) // base 0
	clear(sregs[codeSegment+12 : codeSegment+14])
	if _, err := ioctl(cpu, setSregs, unsafe.Pointer(&sregs)); err != nil {
		t.Fatal(err)
	}
	var regs [sizeOfRegs]byte
	*(*uint64)(unsafe.Pointer(&regs[regsRIP])) = 0x1000
	*(*uint64)(unsafe.Pointer(&regs[regsFlags])) = 2
	if _, err := ioctl(cpu, setRegs, unsafe.Pointer(&regs)); err != nil {
		t.Fatal(err)
	}
	before, err := Exits(debug, os.Getpid())
	locked := errors.Is(err, errNotAllowed) // the machine has its directory, whose files this kernel keeps
	if err != nil && !locked {
		t.Fatal(err)
	}
	writes := 0
	for {
		_, err := ioctl(cpu, run, nil)
		skipIf(t, refused, err, refusals...)
		switch reason := *(*uint32)(unsafe.Pointer(&state[exitReasonAt])); reason {
		case exitIO:
			writes++
			continue
		case exitHalt:
		default:
			t.Fatalf("the machine's run ended with reason %d", reason)
		}
		break
	}
	if writes != wroteToPort {
		t.Errorf("the machine wrote to a port %d times, want %d", writes, wroteToPort)
	}
	if locked {
		t.Skipf("the machine ran, and its counters cannot be read here: %v", err)
	}
	after, err := Exits(debug, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("before %v, after %v", before, after)
	if got := after["io_exits"] - before["io_exits"]; got != wroteToPort {
		t.Errorf("KVM counted %d exits for ports, want %d", got, wroteToPort)
	}
	if got := after["exits"] - before["exits"]; got < wroteToPort+1 {
		t.Errorf("KVM counted %d exits, want at least %d", got, wroteToPort+1)
	}
}
