package line

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"time"
	"unicode"

	"tare/internal/sys/proc"
)

// quietCalls is the multiple of callTime for which a line must be silent before a controller speaks first: a guest that
// lost its controller without noticing does not call.
const quietCalls = 6

// Nudge is a text that may be written to a line before Dial, where the other end is known to be a guest of tare's and
// to need a byte before it speaks. It stands between frames and means nothing.
const Nudge = string(rune(flag))

// DeadError is the error of a serial line at whose other end no guest called.
type DeadError struct {
	Err   error
	Said  string // what came instead, a sentence without a stop
	noise []byte
}

func (e *DeadError) Error() string {
	s := fmt.Sprintf("wait for a guest on the serial line: %v; %s", e.Err, e.Said)
	if last := []rune(proc.Line(proc.Telling(withoutControls(e.noise)))); len(last) > 0 {
		s += ": " + string(last[:min(len(last), 200)])
	}
	return s
}

func (e *DeadError) Unwrap() error { return e.Err }

// Evidence returns the end of what came over the line.
func (e *DeadError) Evidence() []byte { return e.noise }

// Dial waits at the controller's end of a line until a guest calls, opens a session, and measures the line. ctx bounds
// the wait, not the session. On failure rw is closed, and the error is a *DeadError.
func Dial(ctx context.Context, rw io.ReadWriteCloser) (*Conn, error) {
	p := newPort(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start(rw)
	c := newConn(p, sessionNumber())
	p.cur = c
	p.calling = time.AfterFunc(callTime, (&knock{port: p}).tick)
	defer p.calling.Stop()
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
	for !c.met && p.dead == nil && ctx.Err() == nil {
		p.changed.Wait()
	}
	if c.met {
		p.mu.Unlock()
		c.measure(ctx)
		p.mu.Lock()
		if c.err == nil && ctx.Err() == nil {
			return c, nil
		}
	}
	err := cmp.Or(c.err, p.dead, context.Cause(ctx))
	dead := &DeadError{Err: err, Said: p.said(), noise: p.heard()}
	p.mu.Unlock()
	p.close()
	p.mu.Lock()
	return nil, dead
}

// sessionNumber returns a number whose opening has no control characters: it may be sent to a firmware that takes them
// for keys.
func sessionNumber() uint32 {
	var b [4]byte
	for {
		_, _ = rand.Read(b[:]) // it never fails
		clean := b != [4]byte{}
		for _, c := range appendFrame(nil, kindOpen|fromHost, 0, b[:]) {
			clean = clean && c >= ' '
		}
		if clean {
			return binary.LittleEndian.Uint32(b[:])
		}
	}
}

// knock decides when to open the session.
type knock struct {
	*port
	bytes, calls int64 // so many had come at the last tick
	quiet        int   // ticks without a byte
}

func (k *knock) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cur.met || k.dead != nil {
		return
	}
	if k.quiet++; k.seen.bytes != k.bytes {
		k.quiet = 0
	}
	if k.seen.calls != k.calls || k.quiet >= quietCalls {
		k.opening = true
		k.quiet = 0
	}
	k.bytes, k.calls = k.seen.bytes, k.seen.calls
	k.calling.Reset(callTime)
	k.changed.Broadcast()
}

// fromGuest takes a frame at the controller. mu is held.
func (p *port) fromGuest(k kind, body []byte) {
	switch k {
	case kindCall:
		p.seen.calls++
		if p.cur.met && p.cur.ended {
			p.cur.fail(errClosed)
		} else if p.cur.met {
			p.cur.fail(errForgotten)
		} else if p.seen.calls == 1 {
			p.opening = true
		}
	case kindStream:
		if s, ok := parseSegment(body); ok {
			p.cur.take(&s)
		}
	case kindAnswer:
		p.seen.answers++
		p.answeredAt = time.Now()
	}
}

// said describes the bytes that came instead of a session. mu is held.
func (p *port) said() string {
	noise := p.seen.noise + int64(len(p.split.raw))
	switch {
	case p.cur.met:
		return "the guest opened a session and then sent nothing"
	case p.seen.calls > 0:
		return "a guest called and did not answer: it does not hear this end; is the line one-way, or is another " +
			"controller on it?"
	case p.seen.bytes == 0:
		return "not a single byte came: is the guest running from tare's medium, and is this its first serial port?"
	case p.seen.echo > 0 && noise == 0:
		return "only an echo of what was sent came: the other end is a loop or a terminal"
	case unreadable(p.heard()):
		return fmt.Sprintf("%d bytes came, neither text nor frames: do both ends use the same baud rate, and 8 "+
			"bits without parity?", p.seen.bytes)
	}
	return fmt.Sprintf("%d bytes came, but no guest called; the last line", p.seen.bytes)
}

// withoutControls leaves out a terminal's control sequences (ESC [ ... letter), which a firmware's screen is full of.
func withoutControls(b []byte) (out []byte) {
	for i := 0; i < len(b); i++ {
		if b[i] != 0x1b || i+1 == len(b) || b[i+1] != '[' {
			out = append(out, b[i])
			continue
		}
		for i += 2; i < len(b) && (b[i] < '@' || b[i] > '~'); i++ {
		}
	}
	return out
}

// heard is the end of what came between frames. mu is held.
func (p *port) heard() []byte { return append(p.noise.Bytes(), p.split.raw...) }

// unreadable tells whether bytes are mostly no text.
func unreadable(b []byte) bool {
	odd := 0
	for _, c := range b {
		if c >= 0x80 || !unicode.IsPrint(rune(c)) && !unicode.IsSpace(rune(c)) && c != 0x1b {
			odd++
		}
	}
	return odd > len(b)/3
}

// Diagnose returns what came between the frames: the guest's console. Of a session that ended before its time it also
// says why.
func (c *Conn) Diagnose() []byte {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	b := c.p.heard()
	if c.err != nil && c.err != errClosed {
		b = append(b, "\n[serial line] "+c.err.Error()+"\n"...)
	}
	return b
}
