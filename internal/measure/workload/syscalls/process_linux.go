//go:build linux && (amd64 || arm64 || riscv64)

package syscalls

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
)

// spawnable is the program to spawn, as a file.
type spawnable struct{ path string }

// write puts the program into dir under a new name, because a process of another trial may still run the old file.
func (s *spawnable) write(dir string) error {
	image, err := hostProgram()
	if err != nil {
		return err
	}
	// A process forked while the file is open for writing would keep it open until its own exec, and executing the
	// file then fails with ETXTBSY: golang/go#22315.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f, err := os.CreateTemp(dir, "spawn-")
	if err != nil {
		return fmt.Errorf("write program to spawn: %w", err)
	}
	s.path = f.Name()
	_, err = f.Write(image)
	if err := errors.Join(err, f.Chmod(0o700), f.Close()); err != nil {
		return fmt.Errorf("write program to spawn: %w", err)
	}
	return nil
}

func (s *spawnable) remove() error {
	if s.path == "" {
		return nil
	}
	err := os.Remove(s.path)
	s.path = ""
	if err != nil {
		return fmt.Errorf("remove program to spawn: %w", err)
	}
	return nil
}

// start spawns the program. files become its descriptors from 0 on.
func (s *spawnable) start(argv []string, files []uintptr) (int, error) {
	pid, err := syscall.ForkExec(s.path, argv, &syscall.ProcAttr{Files: files})
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
		return 0, fmt.Errorf("execute %s: %w; the work directory may be mounted noexec: choose one in which programs "+
			"can run", s.path, err)
	}
	if err != nil {
		return 0, fmt.Errorf("execute %s: %w", s.path, err)
	}
	return pid, nil
}

// wait waits for a process and returns an error unless it exited with 0.
func wait(pid int) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for process %d: %w", pid, err)
		}
		if !status.Exited() || status.ExitStatus() != 0 {
			return fmt.Errorf("spawned process %d ended with status %#x instead of exit code 0", pid, uint32(status))
		}
		return nil
	}
}

// forkExec spawns the program and waits for it, with what Go's syscall.ForkExec adds: the pipe by which the child tells
// of a failed exec. It clones with CLONE_VM and CLONE_VFORK, so the size of this process does not matter.
type forkExec struct {
	spawnable
	count int
	argv  []string
}

func (o *forkExec) prepare(dir string) error {
	if err := o.write(dir); err != nil {
		return err
	}
	o.argv = []string{o.path}
	return nil
}

func (o *forkExec) close() error { return o.remove() }

func (o *forkExec) round() (time.Duration, error) {
	start := time.Now()
	for range o.count {
		pid, err := o.start(o.argv, nil)
		if err != nil {
			return 0, err
		}
		if err := wait(pid); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// pipeSwitch sends a byte to another process and back. Both run on the one processor that this thread is bound to (the
// child inherits the binding), so each must be switched out before the other can continue: two switches per round trip.
//
// The other end is a process and not a thread of this one: a thread that waits in a raw read cannot be stopped by the
// Go runtime, which could then wait for it forever.
type pipeSwitch struct {
	spawnable
	trips int

	pid      int
	to, from int // our ends of the pipes; -1 when closed
	opened   bool
	token    byte  // the byte to send; a field, because a stack may move while a raw system call holds its address
	done     int64 // round trips of all rounds
	switches int64 // switches of this thread, by the kernel's count
}

func (o *pipeSwitch) prepare(dir string) error {
	if err := o.write(dir); err != nil {
		return err
	}
	var down, up [2]int
	if err := unix.Pipe2(down[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer unix.Close(down[0])
	if err := unix.Pipe2(up[:], unix.O_CLOEXEC); err != nil {
		unix.Close(down[1])
		return fmt.Errorf("make pipe: %w", err)
	}
	defer unix.Close(up[1])
	o.to, o.from, o.opened = down[1], up[0], true
	pid, err := o.start([]string{o.path, "echo"}, []uintptr{uintptr(down[0]), uintptr(up[1])})
	if err != nil {
		return err
	}
	o.pid = pid
	return nil
}

func (o *pipeSwitch) round() (time.Duration, error) {
	before := switchesOut()
	start := time.Now()
	for range o.trips {
		n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(o.to), uintptr(unsafe.Pointer(&o.token)), 1)
		if n != 1 {
			return 0, fmt.Errorf("send byte to process %d: %w", o.pid, errno)
		}
		for {
			n, _, errno = syscall.RawSyscall(unix.SYS_READ, uintptr(o.from), uintptr(unsafe.Pointer(&o.token)), 1)
			if errno != syscall.EINTR {
				break
			}
		}
		if errno != 0 {
			return 0, fmt.Errorf("receive byte from process %d: %w", o.pid, errno)
		}
		if n != 1 {
			return 0, fmt.Errorf("receive byte from process %d: it has ended", o.pid)
		}
	}
	d := time.Since(start)
	o.switches += switchesOut() - before
	o.done += int64(o.trips)
	return d, nil
}

func (o *pipeSwitch) note(b *workload.Bench) {
	b.Note("switches_per_round_trip", fmt.Sprintf("%.2f", 2*float64(o.switches)/float64(o.done)))
}

// close ends the other process by closing its input.
func (o *pipeSwitch) close() error {
	var errs []error
	if o.opened {
		errs = append(errs, unix.Close(o.to), unix.Close(o.from))
		o.opened = false
	}
	if o.pid != 0 {
		errs = append(errs, wait(o.pid))
		o.pid = 0
	}
	return errors.Join(append(errs, o.remove())...)
}

// switchesOut counts how often the calling thread was switched out, 0 if the kernel does not report it. It counts both
// voluntary and involuntary switches: a reader may run as soon as its byte is written, before the writer waits.
func switchesOut() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return u.Nvcsw + u.Nivcsw
}
