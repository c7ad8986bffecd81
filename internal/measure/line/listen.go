package line

import (
	"encoding/binary"
	"io"
	"time"
)

// Listener is the guest's end of a line.
type Listener struct{ p *port }

// Listen begins to call on a line.
func Listen(rw io.ReadWriteCloser) *Listener {
	p := newPort(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start(rw)
	p.calling = time.AfterFunc(0, p.callOut)
	return &Listener{p}
}

// callOut calls as long as there is no session.
func (p *port) callOut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil && p.dead == nil {
		p.call = true
		p.calling.Reset(callTime)
		p.changed.Broadcast()
	}
}

// Accept waits for a controller that opens a session. A session ends when another one is opened.
func (l *Listener) Accept() (*Conn, error) {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.fresh == nil {
		if p.dead != nil {
			return nil, p.dead
		}
		p.changed.Wait()
	}
	c := p.fresh
	p.fresh = nil
	return c, nil
}

// Close closes the line.
func (l *Listener) Close() error { return l.p.close() }

// fromController takes a frame at the guest. mu is held.
func (p *port) fromController(k kind, body []byte) {
	switch {
	case k == kindOpen && len(body) == 4:
		session := binary.LittleEndian.Uint32(body)
		if p.cur == nil || p.cur.session != session {
			if p.cur != nil {
				p.cur.fail(errReplaced)
			}
			p.cur = newConn(p, session)
			p.fresh, p.answers = p.cur, nil
			p.cur.met = true
		}
		p.cur.ack = true
	case p.cur == nil:
	case k == kindStream:
		if s, ok := parseSegment(body); ok {
			p.cur.take(&s)
		}
	case k == kindAsk:
		if a, ok := parseAsk(body); ok {
			for range a.answers {
				p.answers = append(p.answers, a.size)
			}
		}
	}
}
