package http2

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// control acts on a frame that is no part of a response.
func (s *Session) control(k kind, f flags, id uint32, payload []byte) error {
	if !shaped(k, f, id, payload) {
		return fmt.Errorf("the server sends a frame %v that is not valid: %d bytes for the stream %d", k, len(payload),
			id)
	}
	switch k {
	case frameSettings:
		if f.has(flagAck) {
			return nil
		}
		return s.settings(payload)
	case framePing:
		if f.has(flagAck) {
			return nil
		}
		s.frame(framePing, flagAck, 0, payload)
		return s.replied()
	case frameWindow:
		return s.widen(id, int64(binary.BigEndian.Uint32(payload)&maxStream))
	case frameReset:
		if id&1 == 0 || id >= s.next {
			return fmt.Errorf("the server resets the stream %d, which was not asked for", id)
		}
		for _, of := range s.ids {
			if of == id {
				return fmt.Errorf("the server reset the stream: %v", code(binary.BigEndian.Uint32(payload)))
			}
		}
	case frameGoAway:
		return s.goAway(payload)
	case framePush:
		return errors.New("the server pushes a response, which it was told not to do")
	}
	return nil
}

// replied bounds the answers that the server does not take.
func (s *Session) replied() error {
	const answer = headerSize + pingSize
	if s.replies += answer; s.replies > maxReplies {
		return errors.New("the server keeps sending PING or SETTINGS frames, and does not read the answers")
	}
	return nil
}

// settings acts on the payload of SETTINGS.
func (s *Session) settings(p []byte) error {
	allowed := int64(-1)
	for ; len(p) > 0; p = p[settingSize:] {
		set, v := setting(binary.BigEndian.Uint16(p)), binary.BigEndian.Uint32(p[2:])
		if err := set.valid(v); err != nil {
			return err
		}
		switch set {
		case settingTable:
			s.bare = s.bare || v < tableSize
		case settingStreams:
			allowed = int64(v)
		case settingWindow:
			more := int64(v) - s.initial
			s.initial = int64(v)
			for place, id := range s.ids {
				if id != 0 {
					s.streams[place].room += more
				}
			}
		}
	}
	s.frame(frameSettings, flagAck, 0, nil)
	if err := s.replied(); err != nil {
		return err
	}
	s.settled = true
	if allowed >= 0 {
		if err := s.client.Allows(uint32(allowed)); err != nil {
			return err
		}
	}
	s.uploads()
	queued := s.queued
	s.queued = s.queued[:0]
	for _, a := range queued {
		s.Ask(a.place, a.request)
	}
	return nil
}

// widen makes room for bodies of requests.
func (s *Session) widen(id uint32, more int64) error {
	if id == 0 {
		if s.room += more; s.room > maxStream {
			return errors.New("the server's WINDOW_UPDATE exceeds the largest flow-control window")
		}
		s.uploads()
		return nil
	}
	if id&1 == 0 || id >= s.next {
		return fmt.Errorf("the server makes room for the stream %d, which was not asked for", id)
	}
	for place, of := range s.ids {
		if of != id {
			continue
		}
		t := &s.streams[place]
		if t.room += more; t.room > maxStream {
			return errors.New("the server's WINDOW_UPDATE exceeds the largest flow-control window")
		}
		s.upload(place)
	}
	return nil
}

// goAway ends the connection, or lets it finish what the server has taken.
func (s *Session) goAway(p []byte) error {
	taken, why := binary.BigEndian.Uint32(p)&maxStream, code(binary.BigEndian.Uint32(p[4:]))
	if why != codeNone {
		return fmt.Errorf("the server gives up the connection: %v, %.100q", why, p[goAwaySize:])
	}
	if !s.leaves {
		s.leaves = true
		s.client.Leaves()
	}
	queued := s.queued
	s.queued = nil
	for _, a := range queued {
		if err := s.client.Unasked(a.place); err != nil {
			return err
		}
	}
	for place, id := range s.ids {
		if id == 0 || id <= taken {
			continue
		}
		s.ids[place] = 0
		s.active--
		if err := s.client.Unasked(place); err != nil {
			return err
		}
	}
	return nil
}
