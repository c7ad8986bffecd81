package thread

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// Team is a fixed number of goroutines that run pieces of work at the same time. They are started once, before the
// timed section. A Team is not safe for concurrent use.
type Team struct {
	work    []chan func(int)
	arrived sync.WaitGroup
	done    sync.WaitGroup
	gone    sync.WaitGroup
	barrier chan struct{}
	cpus    []int
	panics  []any // each member's last panic value
}

// Start makes a team of n >= 1 members.
//
// With pin, each member is a separate operating system thread bound to one processor: a team of one stays where the
// scheduler, which knows the idle processors, has put it; the members of a larger team are spread over the usable
// processors, round robin if there are fewer. Without pin the members are ordinary goroutines that the kernel may move.
// If the platform cannot pin, the error wraps ErrUnsupported.
func Start(n int, pin bool) (*Team, error) {
	if n < 1 {
		return nil, fmt.Errorf("start threads: the number of threads must be at least 1, not %d", n)
	}
	t := &Team{work: make([]chan func(int), n), cpus: make([]int, n), panics: make([]any, n)}
	errs := make([]error, n)
	t.arrived.Add(n)
	for i := range t.work {
		work := make(chan func(int))
		t.work[i] = work
		t.gone.Go(func() { t.member(i, work, pin, &errs[i]) })
	}
	t.arrived.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Team) member(i int, work <-chan func(int), pin bool, err *error) {
	if pin {
		// Never unlocked: the thread ends with the goroutine, and its binding with it, so that no other goroutine
		// inherits a thread that may run on one processor only.
		runtime.LockOSThread()
		t.cpus[i], *err = pinMember(i, len(t.work))
	}
	t.arrived.Done()
	for f := range work {
		t.arrived.Done()
		<-t.barrier
		t.run(i, f)
	}
}

func (t *Team) run(i int, f func(int)) {
	defer t.done.Done()
	defer func() { t.panics[i] = recover() }()
	f(i)
}

// Do runs work(0) to work(n-1), one on each member, and returns when all are done. The members pass a barrier first:
// none begins before all are awake. A panic in work is passed on to the caller, when all are done.
func (t *Team) Do(work func(i int)) {
	n := len(t.work)
	t.barrier = make(chan struct{})
	t.arrived.Add(n)
	t.done.Add(n)
	for _, c := range t.work {
		c <- work
	}
	t.arrived.Wait()
	close(t.barrier)
	t.done.Wait()
	for _, p := range t.panics {
		if p != nil {
			panic(p)
		}
	}
}

// CPUs returns the processor of each member. It is only valid for a pinned team.
func (t *Team) CPUs() []int { return t.cpus }

// Close ends the members and waits until they are gone. A team must not be used afterwards; closing it again is
// harmless.
func (t *Team) Close() {
	for i, c := range t.work {
		if c != nil {
			close(c)
			t.work[i] = nil
		}
	}
	t.gone.Wait()
}
