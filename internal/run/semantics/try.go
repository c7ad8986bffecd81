package semantics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/internal/measure/fileops"
	"tare/internal/record"
	"tare/internal/unit"
)

// The answers that are words, and the ratings.
const (
	yes, no, partly, untested = "yes", "no", "partly", "untested"
	good, bad, neutral        = "good", "bad", "neutral"
)

// trial is one thing that is tried, and the lines of the card that it fills in.
type trial struct {
	lines  []line
	across bool          // it takes both sides
	limit  time.Duration // the most time it may take; 0 means a few seconds
	run    func(t *try)
}

// line is a property's name and title.
type line struct{ name, title string }

// defaultLimit bounds a trial of a handful of calls.
const defaultLimit = 4 * time.Second

// maker makes one card.
type maker struct {
	in, out    fileops.Side
	options    Options
	end        time.Time
	budget     time.Duration
	rtt        time.Duration // median round trip to the side inside
	properties []record.Property
}

// try is one trial under way. Its actors keep the first error: after it they do nothing, and the lines that are not
// said by then stay untested for that reason. So a trial reads as the list of what is tried.
type try struct {
	*maker
	*trial
	ctx     context.Context
	in, out *actor
	said    map[string]bool
}

// greet measures the round trip to the side inside.
func (m *maker) greet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, defaultLimit)
	defer cancel()
	a := &actor{side: m.in, ctx: ctx}
	var trips []time.Duration
	for range 7 {
		began := time.Now()
		a.do(fileops.Request{Op: fileops.Nop})
		trips = append(trips, time.Since(began))
	}
	slices.Sort(trips)
	m.rtt = trips[len(trips)/2]
}

// least is the time below which a trial is not begun any more.
const least = 200 * time.Millisecond

func (m *maker) try(ctx context.Context, trial *trial) {
	t := &try{maker: m, trial: trial, said: map[string]bool{}}
	left := time.Until(m.end)
	if left < least {
		t.giveUp(fmt.Errorf("the time for the card, %v, was used up before", m.budget))
		return
	}
	limit := min(cmp.Or(trial.limit, defaultLimit), left)
	var cancel context.CancelFunc
	t.ctx, cancel = context.WithTimeout(ctx, limit)
	defer cancel()
	t.in = &actor{side: m.in, ctx: t.ctx}
	if m.out != nil {
		t.out = &actor{side: m.out, ctx: t.ctx, peer: t.in}
		t.in.peer = t.out
	}
	trial.run(t)
	err := t.err()
	if errors.Is(t.ctx.Err(), context.DeadlineExceeded) {
		late := fmt.Errorf("no answer within %v", limit.Round(100*time.Millisecond))
		if err != nil {
			late = fmt.Errorf("%w: %w", late, err)
		}
		err = late
	}
	t.giveUp(err)
	tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultLimit)
	defer cancel()
	for _, a := range []*actor{t.in, t.out} {
		if a != nil {
			a.tidy(tidy)
		}
	}
}

// err is the first error of the actors.
func (t *try) err() error {
	if t.out != nil && t.in.err == nil {
		return t.out.err
	}
	return t.in.err
}

// giveUp says of the lines left that they are untested, and why.
func (t *try) giveUp(why error) {
	for _, l := range t.lines {
		if t.said[l.name] {
			continue
		}
		detail := "it was not tested"
		if why != nil {
			detail = oneLine(why.Error())
		}
		t.properties = append(t.properties, record.Property{Name: l.name, Title: l.title, Answer: untested,
			Rating: neutral, Detail: detail})
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// say answers a line, unless something went wrong before.
func (t *try) say(name, answer, rating, format string, args ...any) {
	t.sayTime(name, 0, answer, rating, format, args...)
}

// sayTime is say with the measured time behind the answer.
func (t *try) sayTime(name string, d time.Duration, answer, rating, format string, args ...any) {
	if t.err() != nil {
		return
	}
	for _, l := range t.lines {
		if l.name == name {
			t.said[name] = true
			t.properties = append(t.properties, record.Property{
				Name: name, Title: l.title, Answer: answer, Seconds: d.Seconds(), Rating: rating,
				Detail: oneLine(fmt.Sprintf(format, args...)),
			})
			return
		}
	}
	panic("card: no line is called " + name)
}

// check answers a line with yes, which is good, or no, which is bad.
func (t *try) check(name string, ok bool, format string, args ...any) {
	if ok {
		t.say(name, yes, good, format, args...)
	} else {
		t.say(name, no, bad, format, args...)
	}
}

// refusal answers a line with no because the file system refused, or with untested because nobody could ask.
func (t *try) refusal(name, rating string, f *fileops.Fault) {
	if f.Code == fileops.Unsupported {
		t.say(name, untested, neutral, "%s", f.Message)
		return
	}
	t.say(name, no, rating, "refused: %s", f.Message)
}

// pause lets time pass, so that two changes have different times on file systems that count in ticks of the kernel.
func (t *try) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	}
}

// left is the time for more of a trial, which needs a little at its end.
func (t *try) left() time.Duration {
	end, _ := t.ctx.Deadline()
	return max(0, time.Until(end)-500*time.Millisecond)
}

// tick is longer than the kernel's slowest tick, 10 ms, by which file systems stamp their files.
const tick = 15 * time.Millisecond

// actor asks a side. It keeps the first error, after which neither it nor its peer does anything more, and the handles
// that it opened.
type actor struct {
	side    fileops.Side
	ctx     context.Context
	peer    *actor
	err     error
	handles []int
}

func (a *actor) stopped() bool { return a.err != nil || a.peer != nil && a.peer.err != nil }

// do makes a request that has to succeed.
func (a *actor) do(r fileops.Request) fileops.Reply {
	reply, _ := a.await(a.start(r))
	return reply
}

// ask carries out what may be refused.
func (a *actor) ask(r fileops.Request) (fileops.Reply, *fileops.Fault) {
	if a.stopped() {
		return fileops.Reply{}, nil
	}
	var reply fileops.Reply
	if reply, a.err = a.side.Do(a.ctx, r); a.err != nil {
		return fileops.Reply{}, nil
	}
	a.own(reply)
	return reply, reply.Fault
}

func (a *actor) own(r fileops.Reply) {
	if r.Handle > 0 {
		a.handles = append(a.handles, r.Handle)
	}
}

// pending is a request under way.
type pending chan response

type response struct {
	reply fileops.Reply
	err   error
	at    time.Time
}

// start makes a request that has to succeed and does not wait. The actor does nothing else until await, which its peer
// may.
func (a *actor) start(r fileops.Request) pending {
	p := make(pending, 1)
	if a.stopped() {
		p <- response{}
		return p
	}
	go func() {
		reply, err := a.side.Do(a.ctx, r)
		if err == nil && reply.Fault != nil {
			err = reply.Fault
		}
		p <- response{reply, err, time.Now()}
	}()
	return p
}

// await returns the answer, and when it came.
func (a *actor) await(p pending) (fileops.Reply, time.Time) {
	got := <-p
	if a.err == nil {
		a.err = got.err
	}
	a.own(got.reply)
	return got.reply, got.at
}

// tidy closes open files. The side does it again when it ends.
func (a *actor) tidy(ctx context.Context) {
	for _, h := range a.handles {
		if _, err := a.side.Do(ctx, fileops.Request{Op: fileops.CloseOp, Handle: h}); err != nil {
			return
		}
	}
}

// Words for the requests that come often.

func (a *actor) put(name, data string) {
	a.do(fileops.Request{Op: fileops.Put, Name: []byte(name), Data: []byte(data)})
}

func (a *actor) get(name string) string {
	return string(a.do(fileops.Request{Op: fileops.Get, Name: []byte(name), Size: 256}).Data)
}

func (a *actor) open(name string, flags fileops.Flag) int {
	return a.do(fileops.Request{Op: fileops.Open, Name: []byte(name), Flags: flags}).Handle
}

func (a *actor) read(handle int) string {
	return string(a.do(fileops.Request{Op: fileops.Read, Handle: handle, Size: 256}).Data)
}

func (a *actor) stat(name string) fileops.Status {
	if s := a.do(fileops.Request{Op: fileops.Stat, Name: []byte(name)}).Stat; s != nil {
		return *s
	}
	return fileops.Status{}
}

// duration writes a time for people.
func duration(d time.Duration) string { return unit.Format(d.Seconds(), "s") }
