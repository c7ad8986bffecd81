package frames

import (
	"errors"
	"fmt"

	xhttp2 "golang.org/x/net/http2"
)

// control acts on a frame that is no part of a response.
func (s *session) control(frame xhttp2.Frame, id uint32) error {
	switch f := frame.(type) {
	case *xhttp2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		return s.settings(f)
	case *xhttp2.PingFrame:
		if f.IsAck() {
			return nil
		}
		_ = s.framer.WritePing(true, f.Data)
		return s.replied()
	case *xhttp2.WindowUpdateFrame:
		return s.widen(id, int64(f.Increment))
	case *xhttp2.RSTStreamFrame:
		if id&1 == 0 || id >= s.next {
			return fmt.Errorf("the server resets the stream %d, which was not asked for", id)
		}
		for _, of := range s.ids {
			if of == id {
				return fmt.Errorf("the server reset the stream: %v", f.ErrCode)
			}
		}
	case *xhttp2.GoAwayFrame:
		return s.goAway(f)
	case *xhttp2.PushPromiseFrame:
		return errors.New("the server pushes a response, which it was told not to do")
	}
	return nil
}

// replied bounds the answers that the server does not take.
func (s *session) replied() error {
	const answer = headerSize + 8
	if s.replies += answer; s.replies > maxReplies {
		return errors.New("the server keeps sending PING or SETTINGS frames, and does not read the answers")
	}
	return nil
}

func (s *session) settings(f *xhttp2.SettingsFrame) error {
	allowed := int64(-1)
	err := f.ForeachSetting(func(set xhttp2.Setting) error {
		if err := set.Valid(); err != nil {
			return fmt.Errorf("the server's settings are not valid: %v is %d", set.ID, set.Val)
		}
		switch set.ID {
		case xhttp2.SettingHeaderTableSize:
			s.bare = s.bare || set.Val < tableSize
		case xhttp2.SettingMaxConcurrentStreams:
			allowed = int64(set.Val)
		case xhttp2.SettingInitialWindowSize:
			more := int64(set.Val) - s.initial
			s.initial = int64(set.Val)
			for place, id := range s.ids {
				if id != 0 {
					s.streams[place].room += more
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_ = s.framer.WriteSettingsAck()
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
func (s *session) widen(id uint32, more int64) error {
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
func (s *session) goAway(f *xhttp2.GoAwayFrame) error {
	if f.ErrCode != xhttp2.ErrCodeNo {
		return fmt.Errorf("the server gives up the connection: %v, %.100q", f.ErrCode, f.DebugData())
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
		if id == 0 || id <= f.LastStreamID {
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
