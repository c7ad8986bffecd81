//go:build amd64 || arm64

package durability

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

const (
	// ringBytes is the room for events that were not read yet: more than ten thousand of them.
	ringBytes = 256 << 10
	// eventSize is the length of what flushProgram tells of one call, in bytes: who called (process and thread), and
	// the descriptor.
	eventSize = 16
)

// tap is a ring in which the kernel tells of flushes.
type tap struct {
	reader *ringbuf.Reader
	event  ringbuf.Record
	open   []io.Closer // in the order in which they were opened
}

// call is a system call that asked for a flush.
type call struct {
	pid int // of the process
	fd  int
}

// flushProgram tells the ring of each system call that flushes a file. It hangs on sys_enter, whose arguments are the
// registers and the call's number. It stops nobody: a call that is none of these costs a few instructions.
func flushProgram(ring *ebpf.Map) asm.Instructions {
	const event = -eventSize // on the stack
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 8, asm.DWord),
		asm.JEq.Imm(asm.R2, unix.SYS_FSYNC, "tell"),
		asm.JEq.Imm(asm.R2, unix.SYS_FDATASYNC, "tell"),
		asm.JEq.Imm(asm.R2, unix.SYS_SYNCFS, "tell"),
		asm.Ja.Label("end"),
		asm.LoadMem(asm.R3, asm.R1, 0, asm.DWord).WithSymbol("tell"), // the registers' address
		asm.Add.Imm(asm.R3, firstArgument),
		asm.Mov.Imm(asm.R2, 0),
		asm.StoreMem(asm.RFP, event+8, asm.R2, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, event+8),
		asm.Mov.Imm(asm.R2, 8),
		asm.FnProbeReadKernel.Call(),
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, event, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, ring.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, event),
		asm.Mov.Imm(asm.R3, eventSize),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"),
		asm.Return(),
	}
}

// initialPIDs is the inode of the first namespace of process ids (PROC_PID_INIT_INO).
const initialPIDs = "pid:[4026531836]"

// openTap begins to listen for flushes.
func openTap() (t *tap, err error) {
	if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != initialPIDs {
		return nil, errors.New("tare runs in a PID namespace, where it cannot see which process makes a call; run " +
			"it outside the container")
	}
	t = &tap{}
	defer func() {
		if err != nil {
			_ = t.close()
			t = nil
		}
	}()
	step := func(what string, c io.Closer, err error) error {
		switch {
		case errors.Is(err, unix.EPERM):
			return fmt.Errorf("%s: not permitted; run tare as root (CAP_BPF and CAP_PERFMON) to have the hypervisor "+
				"watched", what)
		case err != nil:
			return fmt.Errorf("%s: %w; watching needs Linux 5.8 with BPF", what, err)
		}
		t.open = append(t.open, c)
		return nil
	}
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: ringBytes})
	if err = step("make a ring for events", ring, err); err != nil {
		return t, err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, Instructions: flushProgram(ring), License: "GPL",
	})
	if err = step("load the program that watches flushes", program, err); err != nil {
		return t, err
	}
	calls, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_enter", Program: program})
	if err = step("watch system calls", calls, err); err != nil {
		return t, err
	}
	t.reader, err = ringbuf.NewReader(ring)
	if err = step("map the ring of events", t.reader, err); err != nil {
		return t, err
	}
	t.reader.SetDeadline(time.Unix(1, 0)) // long over: a read takes what is there and does not wait
	return t, nil
}

// read hands out what the kernel has told since the last read.
func (t *tap) read(tell func(call)) {
	for t.reader.ReadInto(&t.event) == nil {
		if p := t.event.RawSample; len(p) >= eventSize {
			who := binary.NativeEndian.Uint64(p)
			tell(call{pid: int(who >> 32), fd: int(int32(binary.NativeEndian.Uint64(p[8:])))})
		}
	}
}

func (t *tap) close() error {
	var errs []error
	for len(t.open) > 0 {
		last := len(t.open) - 1
		errs = append(errs, t.open[last].Close())
		t.open = t.open[:last]
	}
	return errors.Join(errs...)
}
