package capture

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"

	"tare/internal/sys/sql/log"
)

// sampler copies a log without the records of the sessions that are left out. What belongs to no session is copied.
type sampler struct {
	format log.Format
	share  float64
	seed   uint64
	from   *bufio.Reader
	to     io.Writer
	at     int64  // from has come here
	stamp  []byte // the time of a record that was left out, for the next one, which may have none of its own
	r      *Result
	err    error
}

// sample copies a share of the sessions of a log, chosen at random, and counts them.
func sample(ctx context.Context, to io.Writer, of source, f log.Format, share float64, r *Result) error {
	read, err := of.reader(ctx)
	if err != nil {
		return err
	}
	from, err := of.reader(ctx)
	if err != nil {
		return err
	}
	s := &sampler{format: f, share: share, seed: rand.Uint64(), from: bufio.NewReaderSize(from, 1<<18), to: to, r: r}
	events, err := log.Open(read, log.Options{Format: f, Aside: s.record})
	if err != nil {
		return err
	}
	for e := (log.Event{}); ; {
		err := events.Next(&e)
		if errors.Is(err, io.EOF) {
			s.copy(r.Bytes - s.at)
			return s.err
		}
		if err = errors.Join(err, s.err); err != nil {
			return err
		}
		s.record(e.Session, e.Offset, e.Length)
	}
}

// record copies what stands before a record, and then the record, or leaves it out.
func (s *sampler) record(session uint64, offset, length int64) {
	s.copy(offset - s.at)
	kept := s.keeps(session)
	if n := int64(session); n > s.r.Sessions { // they are numbered in the order of their first records
		s.r.Sessions = n
		if kept {
			s.r.Kept++
		}
	}
	head, _ := s.from.Peek(int(min(length, maxStamp)))
	stamp := s.stampOf(head)
	if !kept {
		if len(stamp) > 0 {
			s.stamp = append(s.stamp[:0], stamp...)
		}
		s.discard(length)
		return
	}
	if len(stamp) == 0 && len(s.stamp) > 0 {
		s.write(s.stamp)
		if s.format == log.General { // the time stands in the place of the first of two tabs
			s.discard(1)
			length--
		}
	}
	s.stamp = s.stamp[:0]
	s.copy(length)
}

// keeps tells whether a session is in the sample. It gives the same answer whenever it is asked.
func (s *sampler) keeps(session uint64) bool {
	return session == 0 || rand.New(rand.NewPCG(s.seed, session)).Float64() < s.share
}

// maxStamp is longer than any time, in bytes.
const maxStamp = 64

// stampOf returns the time that a record begins with; empty if it has none. MariaDB writes it only where it differs
// from the one of the record before, whichever session that is of.
func (s *sampler) stampOf(head []byte) []byte {
	switch s.format {
	case log.General:
		return head[:max(0, bytes.IndexByte(head, '\t'))]
	case log.Slow:
		if bytes.HasPrefix(head, []byte("# Time: ")) {
			return head[:bytes.IndexByte(head, '\n')+1]
		}
	}
	return nil
}

func (s *sampler) write(b []byte) {
	if s.err == nil {
		_, s.err = s.to.Write(b)
	}
}

func (s *sampler) copy(n int64) {
	if s.err == nil {
		_, s.err = io.CopyN(s.to, s.from, n)
	}
	s.at += n
}

func (s *sampler) discard(n int64) {
	if s.err == nil {
		_, s.err = s.from.Discard(int(n))
	}
	s.at += n
}
