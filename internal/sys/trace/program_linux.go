//go:build amd64 || arm64

package trace

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// The value of a thread, in the map that has those which are followed by their ids.
const (
	threadEntered = 0  // u64: when it began its call; 0 outside of calls
	threadOff     = 8  // u64: since when it is not on a processor; 0 on one, or unknown
	threadOn      = 16 // u64: since when it is on a processor; 0 unknown
	threadCall    = 24 // u32: the number of its call
	threadGroup   = 28 // u32: the process of the agent's that it descends from; 0 for the agent's own threads
	threadAsleep  = 32 // u32: 1 if it went to sleep, 0 if others were to run
	threadStack   = 36 // s32: where it sleeps; below 0 unknown
	threadKind    = 40 // u32: kindWork and kindOwn
	threadIdle    = 44 // u32: 1 if it is not among those that do something
	threadWoke    = 48 // u64: since when it may run again, having slept; 0 unknown
	threadSize    = 56
)

// The kinds of threads.
const (
	kindWork = 1 // it descends from the worker, or is one of its own
	kindOwn  = 2 // it is one of the worker's own process
)

// thread is the same for Go.
type thread struct {
	Entered, Off, On    uint64
	Call, Group, Asleep uint32
	Stack               int32
	Kind, Idle          uint32
	Woke                uint64
}

// The one value of the map by which program and tracer speak of the trial.
const (
	controlPhase   = 0  // u32
	controlSegment = 4  // u32
	controlMain    = 8  // u32: the worker's thread that does the trial
	controlGroup   = 12 // u32: the worker
	controlSince   = 16 // u64: when the timed part began
	controlMode    = 24 // u32: 1 if the tracer says when the timed part is
	controlActive  = 28 // u32: how many threads of the work are not asleep
	controlIdle    = 32 // u64: since when that is none; 0 unknown
	controlSize    = 40
)

type control struct {
	Phase, Segment, Main, Group uint32
	Since                       uint64
	Mode, Active                uint32
	Idle                        uint64
}

// rowSize is the length of a row, whose fields follow in the order of the type.
const (
	rowCount, rowNS, rowBlocked, rowBytes, rowErrors, rowReady, rowIdle = 0, 8, 16, 24, 32, 40, 48

	rowSize = 56
)

// The roles tell the rows of a segment apart: the processes that the worker starts, others that work for the trial, and
// the worker's own.
const (
	roleStarted = iota
	roleServing
	roleOwn
	roles
)

// stackEntries bounds the places in the kernel that are told apart in a trial.
const stackEntries = 4096

// Places on the stack of the programs.
const (
	atThread    = -4 // u32
	atOther     = -8 // u32
	atGroupLead = -12
	atKey       = -16          // u32
	atDelta     = -24          // u64
	atState     = -32          // u64
	atArguments = -56          // three words
	atFrame     = -72          // ten bytes
	atValue     = -128         // of a thread
	atPlace     = atValue - 8  // the key of a sleep: place and call
	atSleep     = atPlace - 16 // its value: ns and count
	atLate      = atSleep - 8  // u64
)

// stateMask has all states of threads.
const stateMask = 0x7fffffff

// offsets are the offsets of the kernel's fields that the programs read.
type offsets struct {
	pid, tgid, state int32 // in struct task_struct, bytes
	stateGiven       bool  // sched_switch has the state as its fourth argument
}

// code writes programs: r6 is the context, r7 the thread, r8 a time or a number, r9 the control.
type code struct {
	*tables
	offsets
	in     asm.Instructions
	labels int
}

func (c *code) emit(in ...asm.Instruction) { c.in = append(c.in, in...) }

// label makes a name that no other has.
func (c *code) label() string {
	c.labels++
	return fmt.Sprintf("l%d", c.labels)
}

// here gives the next instruction a name. It does nothing itself.
func (c *code) here(name string) { c.emit(asm.Mov.Reg(asm.R6, asm.R6).WithSymbol(name)) }

func (c *code) end() asm.Instructions {
	c.emit(asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
	return c.in
}

// address puts the address of a place on the stack into a register.
func (c *code) address(r asm.Register, at int32) {
	c.emit(asm.Mov.Reg(r, asm.RFP), asm.Add.Imm(r, at))
}

// find looks a key up that is on the stack; r0 is the value. Without one it goes on at a label.
func (c *code) find(m *ebpf.Map, key int32, none string) {
	c.emit(asm.LoadMapPtr(asm.R1, m.FD()))
	c.address(asm.R2, key)
	c.emit(asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, none))
}

// current finds the running thread and leaves it in r7. The process's id is in the upper half of r8.
func (c *code) current(none string) {
	c.emit(asm.Mov.Reg(asm.R6, asm.R1), asm.FnGetCurrentPidTgid.Call(), asm.Mov.Reg(asm.R8, asm.R0),
		asm.StoreMem(asm.RFP, atThread, asm.R0, asm.Word))
	c.find(c.threads, atThread, none)
	c.emit(asm.Mov.Reg(asm.R7, asm.R0))
}

// now leaves the time in r8.
func (c *code) now() { c.emit(asm.FnKtimeGetNs.Call(), asm.Mov.Reg(asm.R8, asm.R0)) }

// whileOn leaves the control in r9, and goes on at a label unless the timed part runs.
func (c *code) whileOn(off string) {
	c.emit(asm.LoadMapValue(asm.R9, c.control.FD(), 0),
		asm.LoadMem(asm.R1, asm.R9, controlPhase, asm.Word), asm.JNE.Imm(asm.R1, phaseOn, off))
}

// since puts the later of a register and the begin of the timed part into the register. r2 is lost.
func (c *code) since(r asm.Register) {
	after := c.label()
	c.emit(asm.LoadMem(asm.R2, asm.R9, controlSince, asm.DWord), asm.JGE.Reg(r, asm.R2, after), asm.Mov.Reg(r, asm.R2))
	c.here(after)
}

// rows leaves the rows of the thread in r7 in r0.
func (c *code) rows() {
	mine, known := c.label(), c.label()
	c.emit(
		asm.LoadMem(asm.R1, asm.R9, controlSegment, asm.Word), asm.And.Imm(asm.R1, segments-1),
		asm.Mul.Imm(asm.R1, roles),
		asm.LoadMem(asm.R2, asm.R7, threadGroup, asm.Word), asm.LoadMem(asm.R3, asm.R9, controlGroup, asm.Word),
		asm.JEq.Reg(asm.R2, asm.R3, mine), asm.Add.Imm(asm.R1, roleServing), asm.Ja.Label(known),
	)
	c.here(mine)
	c.emit(asm.LoadMem(asm.R2, asm.R7, threadKind, asm.Word), asm.And.Imm(asm.R2, kindOwn),
		asm.JEq.Imm(asm.R2, 0, known), asm.Add.Imm(asm.R1, roleOwn))
	c.here(known)
	c.emit(asm.StoreMem(asm.RFP, atKey, asm.R1, asm.Word))
	c.find(c.counts, atKey, "end")
}

// add adds a register to a field of the row in r0. r2 is lost.
func (c *code) add(field int16, r asm.Register) {
	c.emit(asm.LoadMem(asm.R2, asm.R0, field, asm.DWord), asm.Add.Reg(asm.R2, r),
		asm.StoreMem(asm.R0, field, asm.R2, asm.DWord))
}

func (c *code) increment(field int16) {
	c.emit(asm.LoadMem(asm.R2, asm.R0, field, asm.DWord), asm.Add.Imm(asm.R2, 1),
		asm.StoreMem(asm.R0, field, asm.R2, asm.DWord))
}

// rowOf moves r0 from the rows to the row of the call that r1 has the number of.
func (c *code) rowOf() {
	c.emit(asm.And.Imm(asm.R1, mostCalls-1), asm.Mul.Imm(asm.R1, rowSize), asm.Add.Reg(asm.R0, asm.R1))
}

// onProcessor adds the time on a processor of the thread in r7, until r8. r1 to r5 are lost.
func (c *code) onProcessor(then string) {
	c.emit(asm.LoadMem(asm.R1, asm.R7, threadOn, asm.DWord), asm.JEq.Imm(asm.R1, 0, then))
	c.since(asm.R1)
	c.emit(asm.Mov.Reg(asm.R2, asm.R8), asm.Sub.Reg(asm.R2, asm.R1), asm.StoreMem(asm.RFP, atDelta, asm.R2, asm.DWord))
	c.rows()
	c.emit(asm.Add.Imm(asm.R0, rowCPU*rowSize), asm.LoadMem(asm.R1, asm.RFP, atDelta, asm.DWord))
	c.add(rowNS, asm.R1)
}

// called adds the call of the thread in r7, which ends at r8, to its row, which is in r0 then. r1 to r5 are lost.
func (c *code) called() {
	c.emit(asm.LoadMem(asm.R1, asm.R7, threadEntered, asm.DWord))
	c.since(asm.R1)
	c.emit(asm.Mov.Reg(asm.R2, asm.R8), asm.Sub.Reg(asm.R2, asm.R1), asm.StoreMem(asm.RFP, atDelta, asm.R2, asm.DWord))
	c.rows()
	c.emit(asm.LoadMem(asm.R1, asm.R7, threadCall, asm.Word))
	c.rowOf()
	c.increment(rowCount)
	c.emit(asm.LoadMem(asm.R1, asm.RFP, atDelta, asm.DWord))
	c.add(rowNS, asm.R1)
}

// zero stores a zero of a size at an offset of the thread in r7. r1 is lost.
func (c *code) zero(offset int16, size asm.Size) {
	c.emit(asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R7, offset, asm.R1, size))
}

// arguments reads the first three arguments of a call that begins to the stack.
func (c *code) arguments() {
	c.address(asm.R1, atArguments)
	c.emit(asm.Mov.Imm(asm.R2, 24), asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord), asm.Add.Imm(asm.R3, argumentsAt),
		asm.FnProbeReadKernel.Call(), asm.JNE.Imm(asm.R0, 0, "end"))
}

// enter hangs on the entry of all calls.
func (c *code) enter() asm.Instructions {
	c.current("end")
	c.emit(
		asm.LoadMem(asm.R1, asm.R7, threadGroup, asm.Word), asm.JEq.Imm(asm.R1, 0, "end"),
		asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord), asm.JGE.Imm(asm.R1, rowExits, "end"),
		asm.StoreMem(asm.R7, threadCall, asm.R1, asm.Word),
	)
	c.now()
	c.emit(
		asm.StoreMem(asm.R7, threadEntered, asm.R8, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, threadCall, asm.Word),
		asm.JEq.Imm(asm.R1, unix.SYS_WRITE, "write"), asm.JNE.Imm(asm.R1, unix.SYS_GETRUSAGE, "end"),
	)
	c.usage()
	c.here("write")
	c.mark()
	return c.end()
}

// usage follows the worker's thread, which calls getrusage when the clock starts and when it has stopped.
func (c *code) usage() {
	c.emit(
		asm.LoadMapValue(asm.R9, c.control.FD(), 0),
		asm.LoadMem(asm.R1, asm.RFP, atThread, asm.Word), asm.LoadMem(asm.R2, asm.R9, controlMain, asm.Word),
		asm.JNE.Reg(asm.R1, asm.R2, "end"),
	)
	c.arguments()
	c.emit(
		asm.LoadMem(asm.R1, asm.RFP, atArguments+firstArgument, asm.Word), // RUSAGE_SELF is 0
		asm.JNE.Imm(asm.R1, 0, "end"),
		asm.LoadMem(asm.R1, asm.R9, controlPhase, asm.Word),
		asm.JEq.Imm(asm.R1, phaseBegun, "begins"), asm.JNE.Imm(asm.R1, phaseOn, "end"),
	)
	c.onProcessor("next-segment")
	c.here("next-segment")
	c.emit(
		asm.StoreMem(asm.R7, threadOn, asm.R8, asm.DWord),
		asm.LoadMem(asm.R1, asm.R9, controlSegment, asm.Word), asm.JGE.Imm(asm.R1, segments-1, "own"),
		asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R9, controlSegment, asm.R1, asm.Word), asm.Ja.Label("own"),
	)
	c.here("begins")
	c.emit(
		asm.StoreMem(asm.R9, controlSince, asm.R8, asm.DWord), asm.StoreMem(asm.R7, threadOn, asm.R8, asm.DWord),
		asm.Mov.Imm(asm.R1, phaseOn), asm.StoreMem(asm.R9, controlPhase, asm.R1, asm.Word),
	)
	c.here("own") // the call itself is none of the work's
	c.zero(threadEntered, asm.DWord)
	c.emit(asm.Ja.Label("end"))
}

// mark notes the begin or the end of the timed part, if the written bytes are a mark.
func (c *code) mark() {
	c.emit(asm.LoadMapValue(asm.R9, c.control.FD(), 0), asm.LoadMem(asm.R1, asm.R9, controlMode, asm.Word),
		asm.JNE.Imm(asm.R1, 0, "end"))
	c.arguments()
	c.emit(asm.LoadMem(asm.R1, asm.RFP, atArguments+thirdArg, asm.DWord), asm.JNE.Imm(asm.R1, markLength, "end"))
	c.address(asm.R1, atFrame)
	c.emit(
		asm.Mov.Imm(asm.R2, markLength), asm.LoadMem(asm.R3, asm.RFP, atArguments+secondArgument, asm.DWord),
		asm.FnProbeReadUser.Call(), asm.JNE.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R1, asm.RFP, atFrame, asm.Word), asm.JNE.Imm(asm.R1, 0, "end"), // no payload
		asm.LoadMem(asm.R1, asm.RFP, atFrame+5, asm.Byte), asm.JNE.Imm(asm.R1, 0, "end"), // no flags
		asm.LoadMem(asm.R1, asm.RFP, atFrame+4, asm.Byte), asm.LoadMem(asm.R2, asm.R9, controlPhase, asm.Word),
		asm.LoadMem(asm.R3, asm.RFP, atThread, asm.Word),
		asm.JEq.Imm(asm.R1, markBegin, "begin"), asm.JNE.Imm(asm.R1, markEnd, "end"),
		asm.JNE.Imm(asm.R2, phaseOn, "end"),
		asm.LoadMem(asm.R1, asm.R9, controlMain, asm.Word), asm.JNE.Reg(asm.R1, asm.R3, "end"),
		asm.Mov.Imm(asm.R1, phaseOver), asm.StoreMem(asm.R9, controlPhase, asm.R1, asm.Word), asm.Ja.Label("end"),
	)
	c.here("begin")
	c.emit(
		asm.JNE.Imm(asm.R2, phaseBefore, "end"),
		asm.LoadMem(asm.R1, asm.R7, threadGroup, asm.Word), asm.StoreMem(asm.R9, controlGroup, asm.R1, asm.Word),
		asm.StoreMem(asm.R9, controlMain, asm.R3, asm.Word),
		asm.Mov.Imm(asm.R1, phaseBegun), asm.StoreMem(asm.R9, controlPhase, asm.R1, asm.Word),
	)
}

// mostErrno is the largest number of an error that a call returns.
const mostErrno = 4095

// leave hangs on the return of all calls.
func (c *code) leave() asm.Instructions {
	c.current("end")
	c.emit(asm.LoadMem(asm.R1, asm.R7, threadEntered, asm.DWord), asm.JEq.Imm(asm.R1, 0, "end"))
	c.whileOn("outside")
	c.now()
	c.called()
	c.zero(threadEntered, asm.DWord)
	c.emit(asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord), asm.JSLT.Imm(asm.R1, 0, "failed"))
	c.add(rowBytes, asm.R1)
	c.emit(asm.Ja.Label("end"))
	c.here("failed")
	c.emit(asm.JSLT.Imm(asm.R1, -mostErrno, "end"), asm.Mov.Reg(asm.R8, asm.R1), asm.Neg.Imm(asm.R8, 0))
	c.increment(rowErrors)
	c.emit(
		asm.LoadMem(asm.R2, asm.R7, threadGroup, asm.Word), asm.LoadMem(asm.R3, asm.R9, controlGroup, asm.Word),
		asm.JNE.Reg(asm.R2, asm.R3, "end"),
		asm.LoadMem(asm.R1, asm.R7, threadKind, asm.Word), asm.And.Imm(asm.R1, kindOwn),
		asm.Mul.Imm(asm.R1, mostCalls/kindOwn), asm.LoadMem(asm.R2, asm.R7, threadCall, asm.Word),
		asm.Or.Reg(asm.R1, asm.R2), asm.LSh.Imm(asm.R1, 12), asm.Or.Reg(asm.R1, asm.R8),
		asm.StoreMem(asm.RFP, atKey, asm.R1, asm.Word),
	)
	c.find(c.errnos, atKey, "first")
	c.emit(asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0), asm.Ja.Label("end"))
	c.here("first")
	c.emit(asm.Mov.Imm(asm.R1, 1), asm.StoreMem(asm.RFP, atDelta, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, c.errnos.FD()))
	c.address(asm.R2, atKey)
	c.address(asm.R3, atDelta)
	c.emit(asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call(), asm.Ja.Label("end"))
	c.here("outside")
	c.zero(threadEntered, asm.DWord)
	return c.end()
}

// fork hangs on the making of threads: those of a thread that is followed are followed.
func (c *code) fork() asm.Instructions {
	c.current("end")
	c.emit(asm.RSh.Imm(asm.R8, 32), asm.LoadMem(asm.R9, asm.R6, 8, asm.DWord))
	c.field(asm.R9, c.pid, atOther)
	c.field(asm.R9, c.tgid, atGroupLead)
	c.emit(asm.Mov.Imm(asm.R1, 0))
	for at := range int16(threadSize / 8) {
		c.emit(asm.StoreMem(asm.RFP, atValue+8*at, asm.R1, asm.DWord))
	}
	// Of the agent's own threads and its children, the children are followed. They are the work.
	c.emit(
		asm.LoadMem(asm.R3, asm.R7, threadKind, asm.Word),
		asm.LoadMem(asm.R1, asm.R7, threadGroup, asm.Word), asm.JNE.Imm(asm.R1, 0, "known"),
		asm.LoadMem(asm.R1, asm.RFP, atGroupLead, asm.Word), asm.Mov.Imm(asm.R3, kindWork),
		asm.JNE.Reg(asm.R1, asm.R8, "known"),
		asm.Mov.Imm(asm.R1, 0), asm.Mov.Imm(asm.R3, 0),
	)
	c.here("known")
	c.emit(
		asm.StoreMem(asm.RFP, atValue+threadGroup, asm.R1, asm.Word), asm.And.Imm(asm.R3, kindWork),
		asm.JEq.Imm(asm.R3, 0, "kind"),
		asm.LoadMapValue(asm.R9, c.control.FD(), 0), asm.Mov.Imm(asm.R2, 1),
		asm.AddAtomic.Mem(asm.R9, asm.R2, asm.Word, controlActive),
		asm.Mov.Imm(asm.R2, 0), asm.StoreMem(asm.R9, controlIdle, asm.R2, asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, atGroupLead, asm.Word), asm.JNE.Reg(asm.R2, asm.R1, "kind"),
		asm.Or.Imm(asm.R3, kindOwn),
	)
	c.here("kind")
	c.emit(asm.StoreMem(asm.RFP, atValue+threadKind, asm.R3, asm.Word), asm.LoadMapPtr(asm.R1, c.threads.FD()))
	c.address(asm.R2, atOther)
	c.address(asm.R3, atValue)
	c.emit(asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call())
	return c.end()
}

// field reads a number of four bytes of the kernel's to the stack.
func (c *code) field(of asm.Register, offset, to int32) {
	c.address(asm.R1, to)
	c.emit(asm.Mov.Imm(asm.R2, 4), asm.Mov.Reg(asm.R3, of), asm.Add.Imm(asm.R3, offset), asm.FnProbeReadKernel.Call(),
		asm.JNE.Imm(asm.R0, 0, "end"))
}

// taskDead is the state of a thread that will not run again.
const taskDead = 0x80

// swap hangs on the change from one thread to the next on a processor: both may be followed.
func (c *code) swap() asm.Instructions {
	c.current("next")
	c.now()
	c.emit(
		asm.StoreMem(asm.R7, threadOff, asm.R8, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, threadGroup, asm.Word), asm.JEq.Imm(asm.R1, 0, "next"),
		asm.Mov.Imm(asm.R9, 0),
		asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord), asm.And.Imm(asm.R1, 0xff), // whether others are to run
		asm.JNE.Imm(asm.R1, 0, "state"),
	)
	if c.stateGiven {
		c.emit(asm.LoadMem(asm.R9, asm.R6, 24, asm.DWord))
	} else {
		c.emit(asm.LoadMem(asm.R9, asm.R6, 8, asm.DWord))
		c.field(asm.R9, c.state, atOther)
		c.emit(asm.LoadMem(asm.R9, asm.RFP, atOther, asm.Word))
	}
	c.emit(asm.And.Imm(asm.R9, stateMask))
	c.here("state")
	c.emit(
		asm.StoreMem(asm.RFP, atState, asm.R9, asm.DWord),
		asm.Mov.Imm(asm.R1, -1), asm.StoreMem(asm.R7, threadStack, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, 0), asm.JEq.Imm(asm.R9, 0, "asleep"), asm.Mov.Imm(asm.R1, 1),
	)
	c.here("asleep")
	c.emit(asm.StoreMem(asm.R7, threadAsleep, asm.R1, asm.Word))
	c.rests("resting")
	c.here("resting")
	c.whileOn("off")
	c.onProcessor("place")
	c.emit(asm.LoadMem(asm.R1, asm.RFP, atState, asm.DWord), asm.JEq.Imm(asm.R1, 0, "pushed"))
	c.increment(rowCount)
	c.emit(asm.Ja.Label("place"))
	c.here("pushed")
	c.increment(rowBytes)
	c.here("place")
	c.emit(
		asm.LoadMem(asm.R1, asm.RFP, atState, asm.DWord), asm.JEq.Imm(asm.R1, 0, "off"),
		asm.LoadMem(asm.R2, asm.R7, threadGroup, asm.Word), asm.LoadMem(asm.R3, asm.R9, controlGroup, asm.Word),
		asm.JNE.Reg(asm.R2, asm.R3, "ends"),
		asm.Mov.Reg(asm.R1, asm.R6), asm.LoadMapPtr(asm.R2, c.stacks.FD()), asm.Mov.Imm(asm.R3, 0),
		asm.FnGetStackid.Call(), asm.StoreMem(asm.R7, threadStack, asm.R0, asm.Word),
	)
	c.here("ends")
	c.emit(
		asm.LoadMem(asm.R1, asm.RFP, atState, asm.DWord), asm.And.Imm(asm.R1, taskDead), asm.JEq.Imm(asm.R1, 0, "off"),
		asm.LoadMem(asm.R1, asm.R7, threadEntered, asm.DWord), asm.JEq.Imm(asm.R1, 0, "off"),
	)
	c.called() // the call that ended it
	c.here("off")
	c.zero(threadOn, asm.DWord)
	c.emit(asm.LoadMem(asm.R1, asm.RFP, atState, asm.DWord), asm.And.Imm(asm.R1, taskDead),
		asm.JEq.Imm(asm.R1, 0, "next"), asm.LoadMapPtr(asm.R1, c.threads.FD()))
	c.address(asm.R2, atThread)
	c.emit(asm.FnMapDeleteElem.Call())
	c.here("next")
	c.wake()
	return c.end()
}

// rests takes the thread in r7, if it goes to sleep at r8, out of those that do something. r9 is lost.
func (c *code) rests(then string) {
	c.emit(
		asm.LoadMem(asm.R1, asm.RFP, atState, asm.DWord), asm.JEq.Imm(asm.R1, 0, then),
		asm.LoadMem(asm.R1, asm.R7, threadKind, asm.Word), asm.And.Imm(asm.R1, kindWork), asm.JEq.Imm(asm.R1, 0, then),
		asm.LoadMem(asm.R1, asm.R7, threadIdle, asm.Word), asm.JNE.Imm(asm.R1, 0, then),
		asm.Mov.Imm(asm.R1, 1), asm.StoreMem(asm.R7, threadIdle, asm.R1, asm.Word),
		asm.LoadMapValue(asm.R9, c.control.FD(), 0), asm.Mov.Imm(asm.R1, -1),
		asm.AddAtomic.Mem(asm.R9, asm.R1, asm.Word, controlActive),
		asm.LoadMem(asm.R1, asm.R9, controlActive, asm.Word), asm.JNE.Imm(asm.R1, 0, then),
		asm.LoadMem(asm.R1, asm.R9, controlIdle, asm.DWord), asm.JNE.Imm(asm.R1, 0, then), // nothing ended it
		asm.StoreMem(asm.R9, controlIdle, asm.R8, asm.DWord),
	)
}

// rises adds the thread in r7, whose id is on the stack, to those that do something, from r8 on. If all of the work was
// asleep, it waited for what this thread waited for. A thread of the worker's own that slept in a futex or took a nap
// is one of Go's, which looks whether there is something to do: it ends no wait. r9 is lost.
func (c *code) rises(then string) {
	acts := c.label()
	c.emit(
		asm.LoadMem(asm.R1, asm.R7, threadIdle, asm.Word), asm.JEq.Imm(asm.R1, 0, then),
		asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R7, threadIdle, asm.R1, asm.Word),
		asm.LoadMapValue(asm.R9, c.control.FD(), 0), asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R9, asm.R1, asm.Word, controlActive),
		asm.LoadMem(asm.R1, asm.R7, threadKind, asm.Word), asm.And.Imm(asm.R1, kindOwn), asm.JEq.Imm(asm.R1, 0, acts),
		asm.LoadMem(asm.R1, asm.R7, threadEntered, asm.DWord), asm.JEq.Imm(asm.R1, 0, acts),
		asm.LoadMem(asm.R1, asm.R7, threadCall, asm.Word), asm.JEq.Imm(asm.R1, unix.SYS_NANOSLEEP, then),
		asm.JEq.Imm(asm.R1, unix.SYS_FUTEX, then),
	)
	c.here(acts)
	c.emit(
		asm.LoadMem(asm.R1, asm.R9, controlIdle, asm.DWord), asm.JEq.Imm(asm.R1, 0, then),
		asm.Mov.Imm(asm.R2, 0), asm.StoreMem(asm.R9, controlIdle, asm.R2, asm.DWord),
		asm.LoadMem(asm.R2, asm.R9, controlPhase, asm.Word), asm.JNE.Imm(asm.R2, phaseOn, then),
	)
	c.since(asm.R1)
	c.emit(asm.JGE.Reg(asm.R1, asm.R8, then), asm.Mov.Reg(asm.R2, asm.R8), asm.Sub.Reg(asm.R2, asm.R1),
		asm.StoreMem(asm.RFP, atDelta, asm.R2, asm.DWord))
	c.rows()
	c.callOf()
	c.rowOf()
	c.emit(asm.LoadMem(asm.R1, asm.RFP, atDelta, asm.DWord))
	c.add(rowIdle, asm.R1)
}

// callOf leaves the number of the call that the thread in r7 is in in r1. r2 is lost.
func (c *code) callOf() {
	row := c.label()
	c.emit(asm.Mov.Imm(asm.R1, rowNoCall), asm.LoadMem(asm.R2, asm.R7, threadEntered, asm.DWord),
		asm.JEq.Imm(asm.R2, 0, row), asm.LoadMem(asm.R1, asm.R7, threadCall, asm.Word))
	c.here(row)
}

// woken hangs on the end of a thread's sleep: from then on it waits for a processor.
func (c *code) woken() asm.Instructions {
	c.emit(asm.Mov.Reg(asm.R6, asm.R1), asm.LoadMem(asm.R9, asm.R6, 0, asm.DWord))
	c.field(asm.R9, c.pid, atOther)
	c.find(c.threads, atOther, "end")
	c.emit(
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadMem(asm.R1, asm.R7, threadGroup, asm.Word), asm.JEq.Imm(asm.R1, 0, "end"),
		asm.LoadMem(asm.R1, asm.R7, threadOff, asm.DWord), asm.JEq.Imm(asm.R1, 0, "end"),
		asm.LoadMem(asm.R1, asm.R7, threadAsleep, asm.Word), asm.JEq.Imm(asm.R1, 0, "end"),
		asm.LoadMem(asm.R1, asm.R7, threadWoke, asm.DWord), asm.JNE.Imm(asm.R1, 0, "end"),
	)
	c.now()
	c.emit(asm.StoreMem(asm.R7, threadWoke, asm.R8, asm.DWord))
	c.rises("end")
	return c.end()
}

// wake counts how long the thread was away that runs next.
func (c *code) wake() {
	c.emit(asm.LoadMem(asm.R9, asm.R6, 16, asm.DWord))
	c.field(asm.R9, c.pid, atOther)
	c.find(c.threads, atOther, "end")
	c.emit(asm.Mov.Reg(asm.R7, asm.R0), asm.LoadMem(asm.R1, asm.R7, threadGroup, asm.Word),
		asm.JEq.Imm(asm.R1, 0, "end"))
	c.now()
	c.emit(
		asm.StoreMem(asm.R7, threadOn, asm.R8, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, threadOff, asm.DWord), asm.JEq.Imm(asm.R1, 0, "end"),
		asm.Mov.Imm(asm.R2, 0), asm.StoreMem(asm.R7, threadOff, asm.R2, asm.DWord),
		asm.StoreMem(asm.RFP, atState, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, threadWoke, asm.DWord), asm.StoreMem(asm.R7, threadWoke, asm.R2, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "told"), asm.Mov.Reg(asm.R1, asm.R8),
	)
	c.here("told")
	c.emit(asm.StoreMem(asm.RFP, atLate, asm.R1, asm.DWord)) // when its sleep was over
	c.rises("risen")
	c.here("risen")
	c.whileOn("end")
	c.emit(asm.LoadMem(asm.R1, asm.RFP, atState, asm.DWord))
	c.since(asm.R1)
	c.emit(asm.StoreMem(asm.RFP, atState, asm.R1, asm.DWord), asm.LoadMem(asm.R1, asm.RFP, atLate, asm.DWord))
	c.since(asm.R1)
	c.emit(
		asm.StoreMem(asm.RFP, atLate, asm.R1, asm.DWord), asm.Mov.Imm(asm.R2, 0),
		asm.LoadMem(asm.R3, asm.RFP, atState, asm.DWord), asm.JGE.Reg(asm.R3, asm.R1, "slept-for"),
		asm.Mov.Reg(asm.R2, asm.R1), asm.Sub.Reg(asm.R2, asm.R3),
	)
	c.here("slept-for")
	c.emit(asm.StoreMem(asm.RFP, atDelta, asm.R2, asm.DWord))
	c.rows()
	c.callOf()
	c.emit(asm.StoreMem(asm.RFP, atPlace+4, asm.R1, asm.Word))
	c.rowOf()
	c.emit(asm.LoadMem(asm.R2, asm.R7, threadAsleep, asm.Word), asm.JNE.Imm(asm.R2, 0, "slept"),
		asm.Mov.Reg(asm.R1, asm.R8), asm.LoadMem(asm.R3, asm.RFP, atState, asm.DWord), asm.Sub.Reg(asm.R1, asm.R3))
	c.add(rowReady, asm.R1)
	c.emit(asm.Ja.Label("end"))
	c.here("slept")
	c.emit(asm.Mov.Reg(asm.R1, asm.R8), asm.LoadMem(asm.R3, asm.RFP, atLate, asm.DWord),
		asm.JGE.Reg(asm.R3, asm.R1, "at-once"), asm.Sub.Reg(asm.R1, asm.R3))
	c.add(rowReady, asm.R1)
	c.here("at-once")
	c.emit(asm.LoadMem(asm.R1, asm.RFP, atDelta, asm.DWord))
	c.add(rowBlocked, asm.R1)
	c.emit( // where Go's threads wait for each other says nothing
		asm.LoadMem(asm.R1, asm.R7, threadKind, asm.Word), asm.And.Imm(asm.R1, kindOwn), asm.JEq.Imm(asm.R1, 0, "work"),
		asm.LoadMem(asm.R1, asm.RFP, atPlace+4, asm.Word), asm.JEq.Imm(asm.R1, unix.SYS_NANOSLEEP, "end"),
		asm.JEq.Imm(asm.R1, unix.SYS_FUTEX, "end"),
	)
	c.here("work")
	c.emit(asm.LoadMem(asm.R1, asm.R7, threadStack, asm.Word), asm.JGE.Imm(asm.R1, stackEntries, "end"),
		asm.StoreMem(asm.RFP, atPlace, asm.R1, asm.Word))
	c.find(c.sleeps, atPlace, "new-place")
	c.emit(asm.LoadMem(asm.R1, asm.RFP, atDelta, asm.DWord), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 8), asm.Ja.Label("end"))
	c.here("new-place")
	c.emit(asm.LoadMem(asm.R1, asm.RFP, atDelta, asm.DWord), asm.StoreMem(asm.RFP, atSleep, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, 1), asm.StoreMem(asm.RFP, atSleep+8, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, c.sleeps.FD()))
	c.address(asm.R2, atPlace)
	c.address(asm.R3, atSleep)
	c.emit(asm.Mov.Imm(asm.R4, 0), asm.FnMapUpdateElem.Call())
}

// event counts something that happens to a thread in a row of its own.
func (c *code) event(row int32) asm.Instructions {
	c.current("end")
	c.emit(asm.LoadMem(asm.R1, asm.R7, threadGroup, asm.Word), asm.JEq.Imm(asm.R1, 0, "end"))
	c.whileOn("end")
	c.rows()
	c.emit(asm.Add.Imm(asm.R0, row*rowSize))
	c.increment(rowCount)
	return c.end()
}
