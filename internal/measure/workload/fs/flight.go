package fs

import (
	"context"
	"fmt"
	"syscall"

	"tare/internal/sys/uring"
)

// flight is a ring with the state of its slots.
type flight struct {
	*uring.Ring
	slots []slot
	free  []int
}

type slot struct {
	record int64 // -1 before the first operation
	write  bool
	from   int64 // when it was issued, by the lane's clock
}

func newFlight(l *lane, depth int) (*flight, error) {
	r, err := uring.New(l.file.Fd(), depth, l.bs)
	if err != nil {
		return nil, err
	}
	f := &flight{Ring: r, slots: make([]slot, depth), free: make([]int, depth)}
	for i := range f.slots {
		f.slots[i].record, f.free[i] = -1, i
	}
	return f, nil
}

// fly keeps the ring full until n operations are done. Writers drain it at the end of each pass, so that two writes of
// one record are never in flight together.
func (l *lane) fly(ctx context.Context, n int64) error {
	if err := l.ring.Enable(); err != nil {
		return err
	}
	for l.done < n {
		end := n
		if l.write {
			end = min(n, l.done+l.records-l.inPass)
			if l.create && l.inPass == 0 && l.pass > 0 {
				if err := l.renew(); err != nil {
					return err
				}
			}
		}
		from := l.done
		if err := l.flyTo(ctx, end); err != nil {
			l.land()
			return err
		}
		if !l.write {
			continue
		}
		if l.inPass += l.done - from; l.inPass == l.records {
			l.pass, l.inPass = l.pass+1, 0
			if err := l.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flyTo does operations until end operations are done and none is in flight.
func (l *lane) flyTo(ctx context.Context, end int64) error {
	f, look := l.ring, l.done
	issued := l.done
	var now int64
	for l.done < end {
		if l.done >= look {
			if err := l.interrupted(ctx); err != nil {
				return err
			}
			look = l.done + chunk
			if l.timed {
				now = l.clock()
			}
		}
		for len(f.free) > 0 && issued < end {
			s := f.free[len(f.free)-1]
			f.free = f.free[:len(f.free)-1]
			l.issue(s, now)
			issued++
		}
		if err := f.Submit(1); err != nil {
			return fmt.Errorf("submit to io_uring for %s: %w", l.path, err)
		}
		if l.timed {
			now = l.clock()
		}
		for s, res, ok := f.Next(); ok; s, res, ok = f.Next() {
			if int(res) != l.bs {
				return l.fell(s, res)
			}
			if l.timed {
				l.keep(s, now)
			}
			l.done++
			if issued < end {
				l.issue(s, now)
				issued++
				if err := f.Submit(0); err != nil {
					return fmt.Errorf("submit to io_uring for %s: %w", l.path, err)
				}
			} else {
				f.free = append(f.free, s)
			}
		}
	}
	return nil
}

// issue queues the next operation of the order.
func (l *lane) issue(s int, now int64) {
	r := l.first + l.order.Next()
	write := l.write && !(l.mixed && l.mix.reads(l.percent))
	l.ring.slots[s] = slot{record: r, write: write, from: now}
	l.last = r
	off := r * int64(l.bs)
	if !write {
		l.ring.Read(s, off)
		return
	}
	l.wrote, l.wgen = r, l.gen+l.pass
	l.content.Fill(l.ring.Buffer(s), r, l.wgen)
	l.ring.Write(s, off)
}

// keep records the time of a slot's operation, from its submission until its completion was seen.
func (l *lane) keep(s int, now int64) {
	o := &l.ring.slots[s]
	if o.write {
		l.writes.Record(now - o.from)
	} else {
		l.reads.Record(now - o.from)
	}
}

// fell explains an operation that did not transfer a whole record.
func (l *lane) fell(s int, res int32) error {
	o := &l.ring.slots[s]
	l.last = o.record
	op := map[bool]string{true: "write", false: "read"}[o.write]
	if res < 0 {
		return l.failed(op, 0, syscall.Errno(-res))
	}
	return l.failed(op, int(res), nil)
}

// land waits for all operations in flight, on the ring's thread.
func (l *lane) land() {
	for l.ring.InFlight() > 0 {
		if l.ring.Submit(1) != nil {
			return
		}
		for _, _, ok := l.ring.Next(); ok; _, _, ok = l.ring.Next() {
		}
	}
}
