package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// interrupts turns the signals that ask this process to end into the end of a context.
//
// A user who stops a program once often sends it several signals: timeout(1) sends one to its child and one to the
// child's group, and a terminal window that is closed sends SIGHUP through the shell and once more from the kernel. So
// only a second Ctrl-C, or a SIGTERM long after the first one, counts as stopping twice.
type interrupts struct {
	cancel context.CancelFunc
	say    io.Writer
	sig    chan os.Signal
	exit   func(code int) // os.Exit, but in tests

	mu   sync.Mutex
	held string // what the user is told when a command that made something is stopped; "" when there is none
}

const (
	// bounce is within what time two Ctrl-C count once.
	bounce = 300 * time.Millisecond
	// impatience is the time after the first SIGTERM from which on another one ends tare at once.
	impatience = 3 * time.Second
	// grace bounds the time in which a command that made nothing has to end by itself: it may be reading data that
	// never come.
	grace = 2 * time.Second
	// lastWords bounds the wait of the last message for a terminal that shows nothing, as after Ctrl-S.
	lastWords = 200 * time.Millisecond
)

// interruptible returns a context that ends at the first Ctrl-C, SIGTERM, and when the terminal goes away. A second
// Ctrl-C ends the program at once; then `tare clean` finds what was left behind.
func interruptible(ctx context.Context, say io.Writer) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancel(ctx)
	i := &interrupts{cancel: cancel, say: say, sig: make(chan os.Signal, 8), exit: os.Exit}
	signal.Notify(i.sig, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(i.sig, syscall.SIGHUP)
	}
	go i.watch()
	return ctx, i
}

// hold tells that the command makes things which it removes when it is stopped, and what the user is told then. From
// then on an output that nobody reads any more does not end the process where it stands.
func (i *interrupts) hold(text string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held = text
	// Into nothing: it comes for the connection to an environment that died as well. See broken.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

func (i *interrupts) holds() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.held
}

// broken is called when what the user is told is read by nobody any more: a wish to stop without words.
func (i *interrupts) broken() { i.cancel() }

// release ends the watch.
func (i *interrupts) release() {
	signal.Stop(i.sig)
	close(i.sig)
	i.cancel()
}

func (i *interrupts) watch() {
	if _, ok := <-i.sig; !ok {
		return
	}
	at := time.Now()
	// Before a word is said: the terminal may be one that shows nothing.
	i.cancel()
	if held := i.holds(); held == "" {
		time.AfterFunc(grace, func() {
			if i.holds() == "" { // it may have begun to make something just then
				i.exit(exitFailed)
			}
		})
	} else {
		go fmt.Fprintf(i.say, "\ntare: stopping: %s. Press Ctrl-C again to stop at once.\n", held)
	}
	for s := range i.sig {
		if !again(s, time.Since(at)) {
			continue
		}
		said := make(chan struct{})
		go func() {
			fmt.Fprintln(i.say, `tare: stopped at once; "tare clean" removes what is left behind.`)
			close(said)
		}()
		select {
		case <-said:
		case <-time.After(lastWords):
		}
		i.exit(exitFailed)
		return
	}
}

// again tells whether a signal that comes some time after the first means that the program shall end at once.
func again(s os.Signal, after time.Duration) bool {
	switch s {
	case os.Interrupt:
		return after >= bounce
	case syscall.SIGTERM:
		return after >= impatience
	}
	return false
}
