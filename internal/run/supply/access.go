package supply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/sys/httplog"
	"tare/internal/sys/sql/log"
	"tare/internal/sys/sql/trace"
)

func checkAccessLog(value string, p workload.Params) error {
	for _, name := range names(value) {
		if name == "-" {
			return errors.New("standard input cannot be used here; write it to a file")
		}
		if err := checkFile(name, p); err != nil {
			return err
		}
	}
	r, err := openAccessLog(value, p, nil)
	if err == nil {
		err = r.Close()
	}
	return err
}

func openAccessLog(value string, p workload.Params, ended func(uint64)) (*httplog.Reader, error) {
	o := httplog.Options{Format: httplog.Format(p["log-format"]), Fields: p["fields"], Ended: ended}
	var err error
	if o.Zone, err = time.LoadLocation(p["zone"]); err != nil {
		return nil, fmt.Errorf("zone: %w", err)
	}
	r, err := httplog.Open(o, Parts(names(value), nil)...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", value, err)
	}
	return r, nil
}

func makeAccessTrace(ctx context.Context, value string, p workload.Params, dst io.Writer) (*log.Account, error) {
	_, a, err := writeAccessTrace(ctx, value, p, dst)
	return a, err
}

// writeAccessTrace writes a trace of the requests of an access log. In the account they are statements.
func writeAccessTrace(ctx context.Context, value string, p workload.Params, dst io.Writer) (*trace.Meta, *log.Account,
	error) {
	shard, _ := strconv.ParseInt(p["shard"], 10, 64)
	c := accesses{w: trace.NewWriter(dst, trace.Meta{Shard: shard, Protocol: trace.HTTP}), open: map[uint64]bool{},
		policy: httplog.Policy{Writes: p["writes"] == "true"}}
	m := &c.w.Meta
	m.Writes = c.policy.Writes
	for _, name := range names(value) {
		m.Sources = append(m.Sources, filepath.Base(name))
	}
	r, err := openAccessLog(value, p, c.ended)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	c.policy = c.policy.For(r, p["hosts"])
	var q httplog.Request
	for {
		err := r.Next(&q)
		if err == io.EOF {
			break
		}
		if err == nil && c.number%1024 == 0 {
			err = ctx.Err()
		}
		if err == nil {
			part, reason := c.policy.Decide(&q)
			r.Settle(part, reason)
			if part == log.Replayed {
				err = c.add(&q)
			}
			c.number++
		}
		if err != nil {
			return nil, nil, err
		}
	}
	of := r.Account()
	a := &log.Account{Bytes: of.Bytes, Statements: of.Requests, Reasons: []log.Reason{}}
	for _, x := range of.Reasons {
		a.Reasons = append(a.Reasons, log.Reason{Part: x.Part, Reason: x.Reason, Statements: x.Requests,
			Bytes: x.Bytes})
	}
	if a.Statements.Replayed == 0 {
		return nil, nil, fmt.Errorf("%s contains no request to replay: %s", value, said(a, "requests"))
	}
	m.Statements, m.Bytes = trace.Parts(a.Statements), trace.Parts(a.Bytes)
	return m, a, errors.Join(c.failed, c.w.Close())
}

// accesses converts the requests of a log to the events of a trace.
type accesses struct {
	w      *trace.Writer
	policy httplog.Policy
	open   map[uint64]bool
	number uint64 // of the next request in the log
	text   []byte
	print  []byte
	failed error
}

// add adds a request.
func (c *accesses) add(q *httplog.Request) error {
	m := &c.w.Meta
	e := trace.Event{Op: trace.Query, At: -1, Number: c.number, Rows: -1}
	if q.Time != httplog.NoTime {
		if m.Start == 0 {
			m.Start = max(1, q.Time)
		}
		e.At = max(0, q.Time-m.Start) // servers write a request when it has ended, so that times go back a little
		m.Span, m.Precision = max(m.Span, e.At), max(m.Precision, q.Precision)
	}
	if status := httplog.Comparable(q); status > 0 {
		e.Rows = int64(status)
	}
	c.print = httplog.Fingerprint(c.print[:0], q)
	e.Fingerprint = c.w.Kind(httplog.ID(c.print), c.print, string(q.Method), "")
	c.text = append(append(append(append(c.text[:0], q.Method...), ' '), q.Target...), '\n')
	for _, h := range []struct {
		name  string
		value []byte
	}{{"Host", q.Host}, {"User-Agent", q.Agent}, {"Referer", q.Referer}} {
		if len(h.value) > 0 {
			c.header(append(append([]byte(h.name), ": "...), h.value...))
		}
	}
	for _, h := range q.Headers {
		c.header(h)
	}
	e.Text = append(append(c.text, '\n'), q.Body...)
	c.text = e.Text
	c.open[q.Session] = true
	return c.w.Add(q.Session, &e)
}

// header adds a header, unless it has what would make it more than one.
func (c *accesses) header(line []byte) {
	for _, b := range line {
		if b < ' ' && b != '\t' || b == 0x7f {
			return
		}
	}
	c.text = append(append(c.text, line...), '\n')
}

// ended ends a session.
func (c *accesses) ended(session uint64) {
	if c.open[session] {
		delete(c.open, session)
		c.failed = errors.Join(c.failed, c.w.Add(session, &trace.Event{Op: trace.Quit, At: -1, Rows: -1,
			Number: c.number}))
	}
}
