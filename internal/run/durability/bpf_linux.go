//go:build amd64 || arm64

package durability

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// instruction is one of the kernel's virtual machine (linux/bpf.h).
type instruction struct {
	op       uint8
	dst, src uint8
	off      int16
	imm      int32
}

// The operations that are used.
const (
	opMove      = unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X
	opMoveConst = unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K
	opAddConst  = unix.BPF_ALU64 | unix.BPF_ADD | unix.BPF_K
	opLoad      = unix.BPF_LDX | unix.BPF_MEM | unix.BPF_DW
	opStore     = unix.BPF_STX | unix.BPF_MEM | unix.BPF_DW
	opStoreZero = unix.BPF_ST | unix.BPF_MEM | unix.BPF_DW
	opJumpEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opCall      = unix.BPF_JMP | unix.BPF_CALL
	opExit      = unix.BPF_JMP | unix.BPF_EXIT
	opLoadConst = unix.BPF_LD | unix.BPF_IMM | unix.BPF_DW // takes two places

	helperPIDs      = 14  // bpf_get_current_pid_tgid
	helperReadKern  = 113 // bpf_probe_read_kernel
	helperRingWrite = 130 // bpf_ringbuf_output
	pseudoMap       = 1   // the constant is a map's descriptor
)

// eventSize is the length of what flushProgram tells of one call, in bytes: who called (process and thread), and the
// descriptor.
const eventSize = 16

// flushProgram tells the ring of each system call that flushes a file. It hangs on sys_enter, whose arguments are the
// registers and the call's number. It stops nobody: a call that is none of these costs a few instructions.
func flushProgram(ring int) []instruction {
	const event = -eventSize // on the stack
	calls := []int32{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS}
	code := []instruction{{op: opLoad, dst: 2, src: 1, off: 8}}
	for i, c := range calls {
		code = append(code, instruction{op: opJumpEqual, dst: 2, off: int16(len(calls) - i + 1), imm: c})
	}
	return append(code,
		instruction{op: opMoveConst, dst: 0},
		instruction{op: opExit},
		instruction{op: opLoad, dst: 3, src: 1}, // the registers' address
		instruction{op: opAddConst, dst: 3, imm: firstArgument},
		instruction{op: opStoreZero, dst: 10, off: event + 8},
		instruction{op: opMove, dst: 1, src: 10},
		instruction{op: opAddConst, dst: 1, imm: event + 8},
		instruction{op: opMoveConst, dst: 2, imm: 8},
		instruction{op: opCall, imm: helperReadKern},
		instruction{op: opCall, imm: helperPIDs},
		instruction{op: opStore, dst: 10, src: 0, off: event},
		instruction{op: opLoadConst, dst: 1, src: pseudoMap, imm: int32(ring)},
		instruction{},
		instruction{op: opMove, dst: 2, src: 10},
		instruction{op: opAddConst, dst: 2, imm: event},
		instruction{op: opMoveConst, dst: 3, imm: eventSize},
		instruction{op: opMoveConst, dst: 4},
		instruction{op: opCall, imm: helperRingWrite},
		instruction{op: opMoveConst, dst: 0},
		instruction{op: opExit},
	)
}

func assemble(code []instruction) []byte {
	b := make([]byte, 0, 8*len(code))
	for _, i := range code {
		b = append(b, i.op, i.dst|i.src<<4)
		b = binary.LittleEndian.AppendUint16(b, uint16(i.off))
		b = binary.LittleEndian.AppendUint32(b, uint32(i.imm))
	}
	return b
}

// bpf is the system call. attr is one of the structures below, which hold pointers as such, so that what they point to
// stays where it is.
func bpf(command int, attr unsafe.Pointer, size uintptr) (int, error) {
	for {
		fd, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(attr), size)
		if errno == 0 {
			return int(fd), nil
		}
		if errno != unix.EINTR && errno != unix.EAGAIN {
			return -1, errno
		}
	}
}

func newRing(bytes uint32) (int, error) {
	attr := struct{ kind, keySize, valueSize, entries, flags uint32 }{kind: unix.BPF_MAP_TYPE_RINGBUF, entries: bytes}
	return bpf(unix.BPF_MAP_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

// maxVerifierLog bounds what the kernel says of a program that it refuses, in bytes.
const maxVerifierLog = 64 << 10

func loadProgram(code []byte) (int, error) {
	licence, log := append([]byte("GPL"), 0), make([]byte, maxVerifierLog)
	attr := struct {
		kind, count        uint32
		code, licence      unsafe.Pointer
		logLevel, logBytes uint32
		log                unsafe.Pointer
	}{
		kind: unix.BPF_PROG_TYPE_RAW_TRACEPOINT, count: uint32(len(code) / 8), code: unsafe.Pointer(&code[0]),
		licence: unsafe.Pointer(&licence[0]), logLevel: 1, logBytes: uint32(len(log)), log: unsafe.Pointer(&log[0]),
	}
	fd, err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(code)
	if said := strings.TrimSpace(unix.ByteSliceToString(log)); err != nil && said != "" {
		lines := strings.Split(said, "\n")
		err = fmt.Errorf("%w: %s", err, lines[max(0, len(lines)-2)])
	}
	return fd, err
}

// attachRaw has the program run at a raw tracepoint, for as long as the descriptor is open.
func attachRaw(program int, tracepoint string) (int, error) {
	name := append([]byte(tracepoint), 0)
	attr := struct {
		name    unsafe.Pointer
		program uint32
		_       uint32
	}{name: unsafe.Pointer(&name[0]), program: uint32(program)}
	return bpf(unix.BPF_RAW_TRACEPOINT_OPEN, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

// initialPIDs is the inode of the first namespace of process ids (PROC_PID_INIT_INO).
const initialPIDs = "pid:[4026531836]"

// openTap begins to listen for flushes.
func openTap() (t *tap, err error) {
	if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != initialPIDs {
		return nil, errors.New("tare is in a namespace of process ids, in which it cannot tell whose calls it sees; run it outside the container")
	}
	t = &tap{ring: -1, program: -1, link: -1}
	defer func() {
		if err != nil {
			t.close()
			t = nil
		}
	}()
	step := func(what string, fd int, err error) (int, error) {
		switch {
		case errors.Is(err, unix.EPERM):
			return -1, fmt.Errorf("%s: not permitted; run tare as root (CAP_BPF and CAP_PERFMON) to have the hypervisor watched", what)
		case err != nil:
			return -1, fmt.Errorf("%s: %w; watching needs Linux 5.8 with BPF", what, err)
		}
		return fd, nil
	}
	fd, err := newRing(ringBytes)
	if t.ring, err = step("make a ring for events", fd, err); err != nil {
		return t, err
	}
	fd, err = loadProgram(assemble(flushProgram(t.ring)))
	if t.program, err = step("load the program that watches flushes", fd, err); err != nil {
		return t, err
	}
	fd, err = attachRaw(t.program, "sys_enter")
	if t.link, err = step("watch system calls", fd, err); err != nil {
		return t, err
	}
	return t, t.mapRing()
}
