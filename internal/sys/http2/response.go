package http2

import (
	"errors"
	"fmt"

	"golang.org/x/net/http2/hpack"
)

// header takes a part of a header.
func (s *Session) header(p []byte, f flags, id uint32, last bool) error {
	whole := f.has(flagEndHeaders)
	if s.of == 0 && whole {
		return s.response(p, id, last)
	}
	// An empty part counts, too.
	if len(s.block)+len(p)+headerSize > maxHead {
		return errHead
	}
	s.block = append(s.block, p...)
	s.of, s.last = id, last
	if !whole {
		if s.idle++; s.idle > maxIdle {
			return errHead
		}
		return nil
	}
	block := s.block
	s.block, s.of = s.block[:0], 0
	return s.response(block, id, last)
}

var errHead = fmt.Errorf("the header of a response is larger than %d KiB", maxHead>>10)

// response reads a whole header: of a response, of an interim one before it, or the trailer after its body.
func (s *Session) response(block []byte, id uint32, last bool) error {
	place, err := s.find(id, "a header")
	if err != nil {
		return err
	}
	t := &s.streams[place]
	// The bound on heads holds for all of a response.
	if t.heads += len(block) + headerSize; t.heads > maxHead {
		return errHead
	}
	s.place, s.heads = place, t.heads
	h, err := s.recall(block)
	if err != nil {
		return err
	}
	t.heads = s.heads
	s.idle = 0
	switch {
	case t.headed && !last:
		return errors.New("a second header comes in the middle of a response")
	case t.headed: // a trailer
		return s.end(place)
	case h.Status == 101:
		return errors.New("the server switches to another protocol, which was not requested")
	case h.Status < 200 && last:
		return fmt.Errorf("the server ended the response with the interim status %d", h.Status)
	case h.Status < 200:
		return nil
	}
	t.head, t.headed = h, true
	if err := s.client.Head(place, &t.head); err != nil {
		return err
	}
	if last {
		return s.end(place)
	}
	return nil
}

// recall reads a header that may be known.
func (s *Session) recall(block []byte) (Head, error) {
	if s.memo == nil {
		return s.decode(s.decoder, block)
	}
	k, ok := s.memo.known[string(block)]
	if !ok {
		independent, inserts := independent(block)
		if !independent {
			if err := s.skipped.tell(s.decoder); err != nil {
				return s.got, fmt.Errorf("the header of a response cannot be decoded: %w", err)
			}
			return s.decode(s.decoder, block)
		}
		s.memo.session = s
		h, err := s.decode(s.memo.decoder, block)
		if err != nil {
			return h, err
		}
		if len(s.memo.known) >= maxMemo {
			clear(s.memo.known)
		}
		k = known{h, string(block), inserts}
		s.memo.known[k.block] = k
	}
	if k.inserts {
		s.skipped.add(k.block)
	}
	if k.head.Status == 0 && !s.streams[s.place].headed {
		return k.head, errNoStatus
	}
	return k.head, nil
}

var errNoStatus = errors.New("the response has no status")

// decode decodes a header.
func (s *Session) decode(d *hpack.Decoder, block []byte) (Head, error) {
	s.got, s.broken = Head{Length: -1}, nil
	d.SetEmitEnabled(true)
	_, err := d.Write(block)
	if broken := d.Close(); err == nil {
		err = broken
	}
	switch {
	case s.broken != nil:
		return s.got, s.broken
	case errors.Is(err, hpack.ErrStringLength):
		return s.got, errHead
	case err != nil:
		return s.got, fmt.Errorf("the header of a response cannot be decoded: %w", err)
	case s.got.Status == 0 && !s.streams[s.place].headed:
		return s.got, errNoStatus
	}
	return s.got, nil
}

// field takes a decoded field.
func (s *Session) field(f hpack.HeaderField) {
	if s.heads += len(f.Name) + len(f.Value) + 32; s.heads > maxHead && s.broken == nil {
		s.broken = errHead
	}
	if s.broken == nil {
		s.broken = s.note(f.Name, f.Value)
	}
	if s.broken != nil {
		return
	}
	if s.memo == nil {
		s.client.Field(s.place, f.Name, f.Value)
	}
}

// note keeps what is needed of a field.
func (s *Session) note(name, value string) error {
	switch name {
	case ":status":
		n, ok := number(value)
		if !ok || len(value) != 3 || n < 100 || s.got.Status != 0 {
			return fmt.Errorf("the response has the invalid status %.40q", value)
		}
		s.got.Status = int(n)
	case "content-length":
		n, ok := number(value)
		if !ok || s.got.Length >= 0 && s.got.Length != n {
			return fmt.Errorf("the response has two lengths, or the invalid length %.40q", value)
		}
		s.got.Length = n
	case "location":
		if len(value) > maxLocation {
			return fmt.Errorf("the target of a redirect is longer than %d KiB", maxLocation>>10)
		}
		s.got.Location = value
	}
	return nil
}

// number reads decimal digits.
func number(text string) (n int64, ok bool) {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' || n > 1<<50 {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, text != ""
}
