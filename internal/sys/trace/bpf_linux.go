//go:build amd64 || arm64

package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const (
	// threadEntries bounds the threads that are followed at once.
	threadEntries = 16 << 10
	// errnoEntries bounds the pairs of a call and an error that are told apart, and sleepEntries those of a place in
	// the kernel and a call.
	errnoEntries = 4096
	sleepEntries = 8192
	// stackDepth bounds the functions of a place in the kernel.
	stackDepth = 64
	// mostStacks bounds the places that are told of, the longest sleeps first.
	mostStacks = 40
)

// tables are the maps that the programs in the kernel and the tracer share.
type tables struct {
	threads *ebpf.Map // by thread id: thread
	control *ebpf.Map // one control
	counts  *ebpf.Map // by segment and role: rows, for each processor
	errnos  *ebpf.Map // by call and error: a number
	stacks  *ebpf.Map // places in the kernel
	sleeps  *ebpf.Map // by place and call: ns and a number
}

// bpf traces by programs in the kernel.
type bpf struct {
	tables
	programs []attachable
	links    []io.Closer
	symbols  *symbols
	open     []io.Closer
	told     [mostCalls]bool // which of the events this kernel tells
	missed   int64           // events, until the trace began
}

type attachable struct {
	point   string
	program *ebpf.Program
	row     int // of an event that not all kernels tell; 0: it must be there
}

// initialPIDs is the inode of the first namespace of process ids (PROC_PID_INIT_INO).
const initialPIDs = "pid:[4026531836]"

// OpenBPF loads the programs. They hang on nothing until a trace starts. The error says why there is no tracing by BPF
// here, and what would allow it.
func OpenBPF() (Tracer, error) {
	if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != initialPIDs {
		return nil, errors.New("tare runs in a PID namespace, where it cannot see which process makes a call; run " +
			"it outside the container")
	}
	b := &bpf{}
	if err := b.load(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *bpf) load() (err error) {
	step := func(what string, c io.Closer, err error) error {
		switch {
		case errors.Is(err, unix.EPERM):
			return fmt.Errorf("%s: not permitted; run tare as root (CAP_BPF and CAP_PERFMON)", what)
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		}
		b.open = append(b.open, c)
		return nil
	}
	var none thread
	for _, m := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		{&b.threads, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(none)),
			MaxEntries: threadEntries}},
		{&b.control, ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: controlSize, MaxEntries: 1}},
		{&b.counts, ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: rowSize * mostCalls,
			MaxEntries: segments * roles}},
		{&b.errnos, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: errnoEntries}},
		{&b.stacks, ebpf.MapSpec{Type: ebpf.StackTrace, KeySize: 4, ValueSize: 8 * stackDepth,
			MaxEntries: stackEntries}},
		{&b.sleeps, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 16, MaxEntries: sleepEntries}},
	} {
		made, err := ebpf.NewMap(&m.spec)
		if err := step("make a table for what is traced", made, err); err != nil {
			return err
		}
		*m.to = made
	}
	at, err := kernelOffsets()
	if err != nil {
		return err
	}
	for _, p := range []struct {
		point string
		write func(*code) asm.Instructions
		row   int
	}{
		{"sched_process_fork", (*code).fork, 0}, // first, so that no thread is missed
		{"sched_switch", (*code).swap, 0},
		{"sched_wakeup", (*code).woken, 0},
		{"sys_enter", (*code).enter, 0},
		{"sys_exit", (*code).leave, 0},
		{"page_fault_user", func(c *code) asm.Instructions { return c.event(rowNoCall) }, rowNoCall},
		{"kvm_exit", func(c *code) asm.Instructions { return c.event(rowExits) }, rowExits},
	} {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL",
			Instructions: p.write(&code{tables: &b.tables, offsets: at})})
		if err := step("load the program for "+p.point, program, err); err != nil {
			return err
		}
		b.programs = append(b.programs, attachable{p.point, program, p.row})
	}
	// Whether they may be hung up is known only when they are.
	if err := b.attach(); err != nil {
		return err
	}
	return b.detach()
}

// kernelOffsets asks the kernel for the offsets of the fields that the programs read.
func kernelOffsets() (at offsets, err error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return at, fmt.Errorf("this kernel does not describe its types (/sys/kernel/btf/vmlinux): %w", err)
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		return at, fmt.Errorf("find struct task_struct: %w", err)
	}
	for _, f := range []struct {
		to    *int32
		names []string
	}{{&at.pid, []string{"pid"}}, {&at.tgid, []string{"tgid"}}, {&at.state, []string{"__state", "state"}}} {
		n, ok := memberOffset(task.Members, f.names)
		if !ok {
			return at, fmt.Errorf("this kernel's struct task_struct has no %s", f.names[0])
		}
		*f.to = int32(n)
	}
	var def *btf.Typedef
	if spec.TypeByName("btf_trace_sched_switch", &def) == nil {
		if p, ok := def.Type.(*btf.Pointer); ok {
			if f, ok := p.Target.(*btf.FuncProto); ok {
				at.stateGiven = len(f.Params) == 5 // the first is the program's own
			}
		}
	}
	return at, nil
}

// memberOffset finds a field of a struct, also in structs without a name in it, in bytes.
func memberOffset(all []btf.Member, names []string) (uint32, bool) {
	for _, m := range all {
		if slices.Contains(names, m.Name) {
			return m.Offset.Bytes(), true
		}
		var inner []btf.Member
		switch t := m.Type.(type) {
		case *btf.Struct:
			inner = t.Members
		case *btf.Union:
			inner = t.Members
		}
		if m.Name == "" {
			if n, ok := memberOffset(inner, names); ok {
				return m.Offset.Bytes() + n, true
			}
		}
	}
	return 0, false
}

// attach hangs the programs on their places.
func (b *bpf) attach() error {
	for _, p := range b.programs {
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: p.point, Program: p.program})
		switch {
		case err == nil:
			b.links, b.told[p.row] = append(b.links, l), true
		case p.row != 0 && errors.Is(err, unix.ENOENT): // this kernel has no such place
		case errors.Is(err, unix.EPERM):
			return errors.Join(fmt.Errorf("trace %s: not permitted; run tare as root (CAP_BPF and CAP_PERFMON)",
				p.point), b.detach())
		default:
			return errors.Join(fmt.Errorf("trace %s: %w", p.point, err), b.detach())
		}
	}
	return nil
}

func (b *bpf) detach() error {
	var errs []error
	for i := len(b.links) - 1; i >= 0; i-- {
		errs = append(errs, b.links[i].Close())
	}
	b.links = nil
	return errors.Join(errs...)
}

// empty empties a table by its keys.
func empty[K, V any](m *ebpf.Map) error {
	var key K
	var value V
	var keys []K
	for i := m.Iterate(); i.Next(&key, &value); {
		keys = append(keys, key)
	}
	for _, k := range keys {
		if err := m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

// Start implements Tracer.
func (b *bpf) Start(r Roots, marked bool) error {
	if err := b.reset(marked); err != nil {
		return fmt.Errorf("empty the tables of the trace: %w", err)
	}
	b.missed = b.misses()
	if err := b.attach(); err != nil {
		return err
	}
	err := b.root(r.Agent, func(int) uint32 { return 0 })
	for _, pid := range slices.Concat(r.Services, r.Serving) {
		if err == nil {
			err = b.root(pid, func(pid int) uint32 { return uint32(pid) })
		}
	}
	if err != nil {
		return errors.Join(err, b.detach())
	}
	return nil
}

func (b *bpf) reset(marked bool) error {
	c := control{}
	if !marked {
		c.Mode = 1
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	errs := []error{b.control.Put(uint32(0), c), empty[uint32, thread](b.threads), empty[uint32, uint64](b.errnos),
		empty[[2]uint32, [2]uint64](b.sleeps), empty[uint32, [stackDepth]uint64](b.stacks)}
	for i := range uint32(segments * roles) {
		errs = append(errs, b.counts.Put(i, make([]rows, cpus)))
	}
	return errors.Join(errs...)
}

// root follows the threads of a process. One that ends meanwhile is none.
func (b *bpf) root(pid int, group func(pid int) uint32) error {
	if pid <= 0 {
		return nil
	}
	// A thread that a thread makes before it is followed is found by the second look.
	for range 2 {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		} else if err != nil {
			return fmt.Errorf("list the threads of process %d: %w", pid, err)
		}
		for _, e := range entries {
			tid, err := strconv.ParseUint(e.Name(), 10, 32)
			if err != nil {
				continue
			}
			err = b.threads.Update(uint32(tid), thread{Group: group(pid), Stack: -1}, ebpf.UpdateNoExist)
			if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
				return fmt.Errorf("follow thread %d: %w", tid, err)
			}
		}
	}
	return nil
}

// misses are the events so far that the kernel kept from the programs.
func (b *bpf) misses() (all int64) {
	for _, p := range b.programs {
		if s, err := p.program.Stats(); err == nil { // since Linux 5.12
			all += int64(s.RecursionMisses)
		}
	}
	return all
}

// Mark implements Tracer.
func (b *bpf) Mark(begins bool) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	c := control{Mode: 1, Phase: phaseOn, Since: uint64(now.Nano())}
	if !begins {
		c.Phase = phaseOver
	}
	return b.control.Put(uint32(0), c)
}

// Stop implements Tracer.
func (b *bpf) Stop() (*Trace, error) {
	if err := b.detach(); err != nil {
		return nil, fmt.Errorf("end the trace: %w", err)
	}
	var c control
	if err := b.control.Lookup(uint32(0), &c); err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	var all [roles][segments]rows
	for role := range roles {
		for s := range segments {
			var of []rows
			if err := b.counts.Lookup(uint32(s*roles+role), &of); err != nil {
				return nil, fmt.Errorf("read the counts of the trace: %w", err)
			}
			for i := range of {
				for j := range of[i] {
					all[role][s][j].add(&of[i][j])
				}
			}
		}
	}
	errnos, own := map[[2]int]int64{}, map[[2]int]int64{}
	var key uint32
	var n uint64
	for i := b.errnos.Iterate(); i.Next(&key, &n); {
		to := errnos
		nr := int(key >> 12)
		if nr >= mostCalls && schedules(nr-mostCalls) {
			to = own
		}
		to[[2]int{nr % mostCalls, int(key & mostErrno)}] += int64(n)
	}
	segment := int(c.Segment)
	if c.Mode == 1 {
		segment = 1 // there is only one
	}
	work, serving := merge(&all[roleStarted], segment), merge(&all[roleServing], segment)
	client := apart(work, merge(&all[roleOwn], segment))
	x := work[rowCPU]
	t := &Trace{Work: calls(work, errnos), Client: calls(client, own), Serving: calls(serving, nil),
		Seen: c.Phase == phaseOver, Timed: true, Missed: b.misses() - b.missed,
		CPU: CPU{OnNS: int64(x.NS), Voluntary: int64(x.Count), Involuntary: int64(x.Bytes),
			ReadyNS: int64(work[rowNoCall].Ready), FaultNS: int64(work[rowNoCall].Idle),
			Faults: int64(work[rowNoCall].Count), Exits: int64(serving[rowExits].Count)}}
	if !b.told[rowNoCall] {
		t.CPU.Faults = -1
	}
	if !b.told[rowExits] {
		t.CPU.Exits = -1
	}
	t.Stack = b.places()
	return t, nil
}

// places are where the processes that do the trial slept.
func (b *bpf) places() []Stack {
	type sleep struct {
		place, call uint32
		ns, count   uint64
	}
	var all []sleep
	var key [2]uint32
	var value [2]uint64
	for i := b.sleeps.Iterate(); i.Next(&key, &value); {
		all = append(all, sleep{key[0], key[1], value[0], value[1]})
	}
	slices.SortFunc(all, func(a, b sleep) int { return cmp.Compare(b.ns, a.ns) })
	var out []Stack
	for _, s := range all[:min(len(all), mostStacks)] {
		var addresses [stackDepth]uint64
		if b.stacks.Lookup(s.place, &addresses) != nil {
			continue
		}
		if b.symbols == nil {
			b.symbols = readSymbols()
		}
		frames := b.symbols.frames(addresses[:])
		if len(frames) == 0 {
			continue // this kernel does not tell the names of its functions
		}
		p := Stack{Frames: frames, NS: int64(s.ns), Count: int64(s.count)}
		if s.call != rowNoCall {
			p.Call = Name(int(s.call))
		}
		out = append(out, p)
	}
	return out
}

// Close implements Tracer.
func (b *bpf) Close() error {
	errs := []error{b.detach()}
	for i := len(b.open) - 1; i >= 0; i-- {
		errs = append(errs, b.open[i].Close())
	}
	b.open = nil
	return errors.Join(errs...)
}
