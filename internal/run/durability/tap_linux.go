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
	in := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 8, asm.DWord),
		asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord), // the registers' address
		asm.JEq.Imm(asm.R2, unix.SYS_FSYNC, "file"),
		asm.JEq.Imm(asm.R2, unix.SYS_FDATASYNC, "file"),
		asm.JEq.Imm(asm.R2, unix.SYS_SYNCFS, "file"),
		asm.JEq.Imm(asm.R2, unix.SYS_IO_SUBMIT, "submit"),
		asm.Ja.Label("end"),
		asm.Mov.Imm(asm.R2, 0).WithSymbol("file"),
		asm.StoreMem(asm.RFP, atFile, asm.R2, asm.DWord),
	}
	in = append(in, argument(0, atFile)...)
	in = append(in, tell(ring)...)
	in = append(in, asm.Ja.Label("end"))
	// A request that was submitted to Linux's own asynchronous I/O may be a flush, too: VirtualBox flushes so.
	in = append(in, label(argument(1, atWord), "submit")...)
	in = append(in, asm.LoadMem(asm.R7, asm.RFP, atWord, asm.DWord)) // how many
	in = append(in, argument(2, atWord)...)
	in = append(in, asm.LoadMem(asm.R8, asm.RFP, atWord, asm.DWord)) // where their addresses are
	for i := range int32(mostRequests) {
		next := fmt.Sprintf("request%d", i+1)
		in = append(in, asm.JLE.Imm(asm.R7, i, "end"))
		in = append(in, asm.Mov.Reg(asm.R3, asm.R8), asm.Add.Imm(asm.R3, 8*i))
		in = append(in, readUser(atWord, 8)...)
		in = append(in, asm.LoadMem(asm.R3, asm.RFP, atWord, asm.DWord))
		in = append(in, readUser(atRequest, requestSize)...)
		in = append(in,
			asm.LoadMem(asm.R2, asm.RFP, atRequest+16, asm.Half), // aio_lio_opcode
			asm.JEq.Imm(asm.R2, requestFsync, next+"-flush"),
			asm.JNE.Imm(asm.R2, requestFdsync, next),
			asm.LoadMem(asm.R2, asm.RFP, atRequest+20, asm.Word).WithSymbol(next+"-flush"), // aio_fildes
			asm.StoreMem(asm.RFP, atFile, asm.R2, asm.DWord),
		)
		in = append(in, tell(ring)...)
		in = append(in, asm.Mov.Imm(asm.R0, 0).WithSymbol(next))
	}
	return append(in, asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
}

// The program's places on its stack: the event with the process and its file, a word, and the beginning of a struct
// iocb (linux/aio_abi.h).
const (
	atEvent     = -eventSize
	atFile      = atEvent + 8
	atWord      = atEvent - 8
	atRequest   = atWord - requestSize
	requestSize = 24

	requestFsync, requestFdsync = 2, 3
	// mostRequests bounds how many of the requests that are submitted at once are looked at.
	mostRequests = 32
)

// argument reads the number of an argument of the system call to a place on the stack.
func argument(n, to int16) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)),
		asm.Mov.Imm(asm.R2, 8),
		asm.Mov.Reg(asm.R3, asm.R6), asm.Add.Imm(asm.R3, firstArgument+int32(n)*nextArgument),
		asm.FnProbeReadKernel.Call(),
	}
}

// readUser reads from the address in R3, in the caller's memory, to a place on the stack.
func readUser(to int16, size int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)),
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "end"),
	}
}

// tell sends the event, whose file is on the stack.
func tell(ring *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.StoreMem(asm.RFP, atEvent, asm.R0, asm.DWord),
		asm.LoadMapPtr(asm.R1, ring.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, atEvent),
		asm.Mov.Imm(asm.R3, eventSize),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
	}
}

func label(in asm.Instructions, name string) asm.Instructions {
	in[0] = in[0].WithSymbol(name)
	return in
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
	t.reader.SetDeadline(time.Unix(1, 0)) // long over: a read takes the data that are there and does not wait
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
