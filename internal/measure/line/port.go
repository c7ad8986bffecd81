package line

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"tare/internal/sys/proc"
)

// noiseTail bounds the noise that is kept, in bytes.
const noiseTail = 64 << 10

// callTime is the time between two calls, and between two openings without an answer.
const callTime = 500 * time.Millisecond

// port is one end of a serial line. One goroutine reads from the line, one writes to it.
type port struct {
	rw    io.ReadWriteCloser
	host  bool
	noise *proc.Tail

	// The reader's own.
	split   splitter
	scratch [maxRaw + 1]byte

	mu      sync.Mutex
	changed sync.Cond // whatever the writer or a caller may wait for
	dead    error     // why the line is of no more use
	cur     *Conn     // the session; nil if there is none
	call    bool      // guest: send a call now
	calling *time.Timer
	opening bool     // controller: send an opening now
	writing bool     // a write to the line goes on
	answers []uint16 // guest: the sizes of the answers to send
	fresh   *Conn    // guest: a session that was not accepted yet

	answeredAt time.Time // controller: when the last answer came
	seen       counts
}

// counts are the counts of the bytes and frames that came over a line.
type counts struct {
	bytes, noise, echo, calls, answers int64
	damaged                            int64 // chunks in a session that are no frames of it
}

// start begins to use a line. mu is held, so that nothing is taken before the caller is done.
func (p *port) start(rw io.ReadWriteCloser) {
	p.rw = rw
	go p.read()
	go p.write()
}

// newPort makes an end without a line.
func newPort(host bool) *port {
	p := &port{host: host, noise: proc.NewTail(noiseTail)}
	p.changed.L = &p.mu
	return p
}

// fail ends the line. mu is held.
func (p *port) fail(err error) {
	if p.dead == nil {
		p.dead = err
	}
	if p.cur != nil {
		p.cur.fail(p.dead)
	}
	if p.calling != nil {
		p.calling.Stop()
	}
	p.changed.Broadcast()
}

// errClosed is the end of a line that this end has closed.
var errClosed = errors.New("the serial line is closed")

func (p *port) close() error {
	p.mu.Lock()
	p.fail(errClosed)
	p.mu.Unlock()
	return p.rw.Close()
}

func (p *port) read() {
	buf := make([]byte, maxBatch)
	for {
		n, err := p.rw.Read(buf)
		p.mu.Lock()
		p.seen.bytes += int64(n)
		p.split.feed(buf[:n], p.chunk)
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			p.fail(fmt.Errorf("read from the serial line: %w", err))
		}
		gone := p.dead != nil
		p.changed.Broadcast()
		p.mu.Unlock()
		if gone {
			return
		}
	}
}

// chunk takes what stood between two flags. mu is held.
func (p *port) chunk(raw []byte) {
	var salt uint32
	if p.cur != nil {
		salt = p.cur.session
	}
	k, body, ok := parseFrame(p.scratch[:], raw, salt)
	switch {
	case !ok:
		p.seen.noise += int64(len(raw))
		p.noise.Write(raw)
		if p.cur != nil && p.cur.met {
			p.seen.damaged++
			p.cur.damaged()
		}
	case (k&fromHost != 0) == p.host:
		p.seen.echo++
	case p.host:
		p.fromGuest(k, body)
	default:
		p.fromController(k&^fromHost, body)
	}
}

// A fast line gets several frames at once: for a virtual machine each write is a way out of it and back. On a slow line
// they would only hold up what is more urgent than they are.
const (
	maxBatch  = 16 << 10             // bytes
	fastWrite = 2 * time.Millisecond // after a write that took no longer the next one may be larger
	slowWrite = 10 * time.Millisecond
)

// write sends what there is to send.
func (p *port) write() {
	var b []byte
	batch := 1
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for p.dead == nil {
			if b = p.next(b[:0]); len(b) > 0 {
				break
			}
			p.changed.Wait()
		}
		if p.dead != nil {
			return
		}
		for n := 0; n < len(b) && len(b) < batch; {
			n = len(b)
			b = p.next(b)
		}
		p.writing = true
		p.mu.Unlock()
		began := time.Now()
		_, err := p.rw.Write(b)
		switch took := time.Since(began); {
		case took > slowWrite:
			batch = max(batch/4, 1)
		case took < fastWrite:
			batch = min(max(batch, 2*len(b)), maxBatch)
		}
		p.mu.Lock()
		p.writing = false
		p.changed.Broadcast()
		if err != nil {
			p.fail(fmt.Errorf("write to the serial line: %w", err))
		} else if p.cur != nil {
			p.cur.written()
		}
	}
}

// next appends the next frame to send; none if there is none. mu is held.
func (p *port) next(b []byte) []byte {
	switch {
	case p.call && p.cur == nil:
		p.call = false
		return appendFrame(b, kindCall, 0)
	case p.opening && p.cur != nil:
		p.opening = false
		return appendFrame(b, kindOpen|fromHost, 0, p.cur.number())
	case p.cur == nil:
		return b
	case len(p.answers) > 0:
		size := p.answers[0]
		p.answers = p.answers[1:]
		return appendFrame(b, kindAnswer, p.cur.session, filler[:size])
	}
	return p.cur.next(b)
}

// filler has the bytes that are sent to measure the speed of a line.
var filler [maxData]byte
