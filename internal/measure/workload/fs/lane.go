package fs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/sys/clock"
	"tare/internal/sys/histogram"
	"tare/internal/sys/thread"
)

// settings are the same for all lanes of a trial.
type settings struct {
	profile
	bs      int
	direct  bool
	fsync   string
	create  bool   // each trial writes new files
	percent uint64 // of operations that read, where the profile mixes
	timed   bool   // every operation's latency is recorded
	gen     uint64 // generation of this trial's first pass of writes
	stop    atomic.Bool
}

// lane is the work of one thread: a range of records of one file, in its own order, again and again. Lanes do not share
// any data that they write.
type lane struct {
	*settings
	path    string
	first   int64 // the lane's first record
	records int64 // the length of a pass
	file    *fileio.Handle
	content *fileio.Content
	order   fileio.Order
	mix     mixer
	buf     []byte  // buffer for reads
	ring    *flight // nil unless the engine is io_uring
	memory  []byte  // the whole file; nil unless the engine is mmap

	done   int64  // operations completed
	pass   uint64 // passes over the lane's records completed
	inPass int64  // operations done of the pass at work
	last   int64  // the record touched last
	read   int64  // the record in buf; -1 for none
	wrote  int64  // the record written last; -1 for none
	wgen   uint64 // its generation
	reads  *histogram.Histogram
	writes *histogram.Histogram
	epoch  clock.Instant
	thread fileio.Thread
	// private: the thread had its own table of files.
	private bool
	took    time.Duration // from the barrier to the lane's last operation
}

// clock is one reading of the monotonic clock.
func (l *lane) clock() int64 { return int64(clock.Since(l.epoch)) }

// chunk is the number of operations between two checks of the context.
const chunk = 1024

// run does n operations on a system thread of its own. A lane with a ring keeps the thread until release. A lane that
// calls the kernel for each operation gets a thread with its own table of files if the kernel allows it: a buffered
// read or write of 4 KiB then costs 4 to 8 % less, the same as in a program with one thread.
func (l *lane) run(ctx context.Context, n int64) error {
	if l.ring != nil || l.memory != nil {
		return l.operate(ctx, n)
	}
	return l.thread.Run(func(private bool) error {
		l.private = private
		return l.operate(ctx, n)
	})
}

func (l *lane) operate(ctx context.Context, n int64) (err error) {
	runtime.LockOSThread()
	if l.ring == nil {
		defer runtime.UnlockOSThread()
	}
	defer thread.Quiet()()
	if l.memory != nil {
		// A page that cannot be read, or that was truncated, causes a fault, not an error.
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if p := recover(); p != nil {
				err = l.fault(p)
			}
		}()
	}
	if l.ring != nil {
		err = l.fly(ctx, n)
	} else {
		err = l.walk(ctx, n)
	}
	if err == nil && l.write && l.inPass != 0 {
		err = l.flush()
	}
	l.took = clock.Since(l.epoch)
	return err
}

// walk does one operation after the other.
func (l *lane) walk(ctx context.Context, n int64) error {
	for l.done < n {
		if err := l.interrupted(ctx); err != nil {
			return err
		}
		m := min(chunk, n-l.done)
		var err error
		switch {
		case l.write || l.memory != nil:
			err = l.workSome(m)
		case l.timed:
			err = l.readTimed(m)
		default:
			err = l.readSome(m)
		}
		if err != nil {
			return err
		}
		l.done += m
	}
	return nil
}

// errStopped stops a lane because another one failed.
var errStopped = errors.New("stopped because another thread failed")

func (l *lane) interrupted(ctx context.Context) error {
	if l.stop.Load() {
		return errStopped
	}
	return ctx.Err()
}

// readSome is the bare loop: only the order and the system call.
func (l *lane) readSome(n int64) error {
	f, buf, bs, first := l.file, l.buf, int64(l.bs), l.first
	for range n {
		l.last = first + l.order.Next()
		if got, err := f.ReadAt(buf, l.last*bs); got != len(buf) || err != nil {
			return l.failed("read", got, err)
		}
	}
	l.read = l.last
	return nil
}

// readTimed is readSome with one reading of the clock for each read: the end of one is the beginning of the next.
func (l *lane) readTimed(n int64) error {
	f, buf, bs, first := l.file, l.buf, int64(l.bs), l.first
	from := l.clock()
	for range n {
		l.last = first + l.order.Next()
		if got, err := f.ReadAt(buf, l.last*bs); got != len(buf) || err != nil {
			return l.failed("read", got, err)
		}
		now := l.clock()
		l.reads.Record(now - from)
		from = now
	}
	l.read = l.last
	return nil
}

// workSome does all operations except bare reads.
func (l *lane) workSome(n int64) error {
	each := l.flushesEach()
	var from int64
	if l.timed {
		from = l.clock()
	}
	for range n {
		if l.create && l.inPass == 0 && l.pass > 0 {
			if err := l.renew(); err != nil {
				return err
			}
		}
		l.last = l.first + l.order.Next()
		kept := l.reads
		if !l.write || l.mixed && l.mix.reads(l.percent) {
			if err := l.get(l.last); err != nil {
				return err
			}
		} else {
			if err := l.put(l.last, l.gen+l.pass); err != nil {
				return err
			}
			if each {
				if err := l.flushAs(l.fsync); err != nil {
					return err
				}
			}
			kept = l.writes
		}
		if l.timed {
			now := l.clock()
			kept.Record(now - from)
			from = now
		}
		if l.inPass++; l.inPass == l.records {
			l.pass, l.inPass = l.pass+1, 0
			if err := l.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// get reads record r into buf.
func (l *lane) get(r int64) error {
	l.read = r
	off := r * int64(l.bs)
	if l.memory != nil {
		fileio.Copy(l.buf, l.memory[off:off+int64(l.bs)])
		return nil
	}
	if got, err := l.file.ReadAt(l.buf, off); got != len(l.buf) || err != nil {
		return l.failed("read", got, err)
	}
	return nil
}

// put writes record r as generation gen.
func (l *lane) put(r int64, gen uint64) error {
	l.wrote, l.wgen = r, gen
	off := r * int64(l.bs)
	if l.memory != nil {
		l.content.Fill(l.memory[off:off+int64(l.bs)], r, gen)
		return nil
	}
	p := l.content.Record(r, gen)
	if got, err := l.file.WriteAt(p, off); got != len(p) || err != nil {
		return l.failed("write", got, err)
	}
	return nil
}

// renew empties the file before a further pass over it.
func (l *lane) renew() error {
	err := l.file.Truncate(0)
	if err == nil && l.memory != nil {
		err = l.file.Truncate(int64(len(l.memory)))
	}
	if err != nil {
		return fileio.Explain("truncate", l.path, err)
	}
	return nil
}

// flush ends a pass.
func (l *lane) flush() error {
	if l.fsync == syncNone || l.flushesEach() {
		return nil
	}
	return l.flushAs(l.fsync)
}

func (l *lane) flushAs(how string) error {
	var err error
	switch {
	case l.memory != nil:
		err = syncMapped(l.memory)
	case how == syncDataEach || how == syncDataEnd:
		err = l.file.Datasync()
	case how == syncFullEach || how == syncFullEnd:
		err = l.file.FullSync()
	default:
		err = l.file.Sync()
	}
	if err != nil {
		return fileio.Explain("flush", l.path, err)
	}
	return nil
}

// failed explains an operation on record l.last that failed or transferred fewer bytes than requested.
func (l *lane) failed(op string, got int, err error) error {
	off := l.last * int64(l.bs)
	if err == nil {
		return fmt.Errorf("%s record %d of %s at offset %d: %d of %d bytes", op, l.last, l.path, off, got, l.bs)
	}
	if l.direct && fileio.IsRefusal(err) {
		return fileio.Refused(l.path, l.bs, err)
	}
	return fileio.Explain(fmt.Sprintf("%s record %d at offset %d of", op, l.last, off), l.path, err)
}

// fault turns a memory fault into an error; any other panic goes on.
func (l *lane) fault(p any) error {
	e, ok := p.(interface {
		error
		Addr() uintptr
	})
	if !ok {
		panic(p)
	}
	return fmt.Errorf("access record %d of %s in memory: %w: the file was truncated, the disk is full, or the "+
		"storage failed", l.last, l.path, e)
}

// release frees the ring's resources, on the goroutine that called run.
func (l *lane) release() {
	if l.ring != nil {
		l.ring.Release()
		runtime.UnlockOSThread()
	}
}

// close ends the lane. It is idempotent.
func (l *lane) close() error {
	var err error
	l.thread.Wait()
	if l.ring != nil {
		err = l.ring.Close()
		l.ring = nil
	}
	if l.memory != nil {
		err = errors.Join(err, unmapFile(l.memory))
		l.memory = nil
	}
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
		l.file = nil
	}
	return err
}

// mixer decides which operations read. The same seed gives the same sequence everywhere (splitmix64, Steele et al.
// 2014).
type mixer struct{ state uint64 }

// reads tells whether the next operation is a read, which is so for percent of a hundred.
func (m *mixer) reads(percent uint64) bool {
	m.state += 0x9e3779b97f4a7c15
	z := m.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return z>>32*100>>32 < percent
}
