package network

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// ends measures the CPU time of both ends of a trial.
type ends struct {
	control   *netpeer.Conn
	peer      netpeer.Used  // when Measure began
	client    time.Duration // when Measure began, then what it used
	connected []*netpeer.Conn
}

// open makes the connection that asks the peer what it used.
func (e *ends) open(b *workload.Bench) error {
	d, err := netpeer.NewDialer(b.Peer.Address, b.Peer.Token, netpeer.Usage, 0)
	if err != nil {
		return err
	}
	if e.control, err = d.Dial(); err != nil {
		return err
	}
	e.peer, err = e.control.Usage()
	return err
}

// connect makes a trial's connections.
func (e *ends) connect(ctx context.Context, b *workload.Bench, conns []*netpeer.Conn, op netpeer.Op, size int) error {
	d, err := netpeer.NewDialer(b.Peer.Address, b.Peer.Token, op, size)
	if err != nil {
		return err
	}
	for i := range conns {
		if err := ctx.Err(); err != nil {
			return err
		}
		if conns[i], err = d.Dial(); err != nil {
			return err
		}
		e.connected = append(e.connected, conns[i])
	}
	return nil
}

func (e *ends) begin() { e.client = netpeer.CPUTime() }

func (e *ends) end() { e.client = netpeer.CPUTime() - e.client }

// report reports the CPU time of both ends, and its share of what was available. It comes first in a Report: until the
// peer is asked, what it does counts as the trial's.
func (e *ends) report(b *workload.Bench, c cost) error {
	now, err := e.control.Usage()
	if err != nil {
		return err
	}
	e.reportWith(b, c, now.CPU-e.peer.CPU, now.CPUs)
	return nil
}

// reportWith is report with what the other end used; below 0: not known.
func (e *ends) reportWith(b *workload.Bench, c cost, other time.Duration, cpus int) {
	e.reportOver(b, c, float64(b.Work)*c.each, b.Elapsed, other, cpus)
}

// reportOver is reportWith for a part of the trial, in which so much was done in some time.
func (e *ends) reportOver(b *workload.Bench, c cost, done float64, elapsed, other time.Duration, cpus int) {
	for _, side := range []struct {
		name, share string
		used        time.Duration
		cpus        int
	}{
		{"client", "client_cpu_share", e.client, netpeer.CPUs()},
		{"peer", "server_cpu_share", other, cpus},
	} {
		if side.used < 0 || side.cpus < 1 { // not known
			continue
		}
		b.Report(side.name+"_cpu_"+c.metric, side.used.Seconds()*c.scale/done)
		b.Note(side.share, strconv.FormatFloat(side.used.Seconds()/elapsed.Seconds()/float64(side.cpus), 'f', 3, 64))
	}
}

// reportInfo reports what the senders' kernels tell of so many streams, of which the sum is given.
func reportInfo(b *workload.Bench, sum sock.Info, n int64, known bool) {
	if !known {
		b.Note("tcp_info", sock.NoInfo)
		return
	}
	b.Note("retransmits", strconv.FormatInt(sum.Resent, 10))
	b.Report("tcp_rtt", float64(sum.RTT)/float64(n))
	b.Report("tcp_window", float64(sum.Window)/float64(n))
}

func (e *ends) close() error {
	var errs []error
	for _, c := range e.connected {
		errs = append(errs, c.Close())
	}
	if e.control != nil {
		errs = append(errs, e.control.Close())
	}
	return errors.Join(errs...)
}

// each has every one of n do its share of the work, side by side, and returns the first error.
func each(team *thread.Team, n int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}
	errs := make([]error, n)
	team.Do(func(i int) { errs[i] = do(i) })
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

// share is the part of all that the i-th of n does.
func share(all int64, i, n int) int64 {
	s := all / int64(n)
	if int64(i) < all%int64(n) {
		s++
	}
	return s
}
