package fileio

import (
	"runtime"
	"time"

	"tare/internal/sys/thread"
)

// Thread runs pieces of work, each on a separate thread that ends with the work and has its own table of open files, if
// the system supports that. It is not safe for concurrent use. The zero value is ready.
//
// Files that were open before are open in both tables until both have closed them: see Wait. The work must close the
// files that it opens, because no other code can. Goroutines that it starts do not see these files.
type Thread struct {
	id int // of the thread that may not have ended; 0 for none
}

// Run does a piece of work; private tells whether its table of files is its own. The clock's tick does not disturb it.
// A panic is passed on.
func (t *Thread) Run(do func(private bool) error) error {
	// Go's poller opens its files with the first timer. They must be in the table that all threads copy.
	time.AfterFunc(time.Hour, func() {}).Stop()
	var err error
	var trouble any
	done := make(chan struct{})
	go mortal(func() {
		defer close(done)
		defer func() { trouble = recover() }()
		defer thread.Quiet()()
		private := unshareFiles()
		if private {
			t.id = threadID()
		}
		err = do(private)
	})
	<-done
	if trouble != nil {
		panic(trouble)
	}
	return err
}

// mortal runs do at the end of the calling goroutine, on a thread that ends with it. The first thread of a process
// would not end: Go parks it with its table of files. In that case another thread runs do.
func mortal(do func()) {
	runtime.LockOSThread() // never unlocked: the thread's table of files must not serve another goroutine
	if !firstThread() {
		do()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		do()
	}()
	<-done
	runtime.UnlockOSThread()
}

// patience bounds Wait. A thread takes some 50 us to end, unless the storage of one of its files hangs.
const patience = 2 * time.Second

// Wait returns when the thread of the last Run has ended, and with it its copies of open files. Before that, their file
// system cannot be unmounted, and some shares remove a file only in name. It gives up after two seconds.
func (t *Thread) Wait() {
	for began := time.Now(); t.id != 0 && !ended(t.id) && time.Since(began) < patience; {
		time.Sleep(50 * time.Microsecond)
	}
	t.id = 0
}
