package sql

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"tare/internal/measure/workload"
)

// host is the trial on a private server's side when other hosts do the work: it tells them how to reach the server, and
// what that did meanwhile.
type host struct{ *replayTrial }

// Setup finds the server, and looks at the work that the others do.
func (h *host) Setup(ctx context.Context, b *workload.Bench) (err error) {
	t := h.target
	if err := h.open(b); err != nil {
		return err
	}
	if err := t.find(b); err != nil {
		return err
	}
	t.untold = false // it has no lanes
	if err := h.Survey(b.Work); err != nil {
		return err
	}
	if h.aside, err = dial(ctx, t, true); err != nil {
		return err
	}
	text, err := json.Marshal(&endpoint{Network: "tcp", User: own, Password: t.Key, Database: t.Database,
		Version: t.Version, Port: t.Port, Trials: b.Service.Trials})
	b.Offer = string(text)
	if err == nil {
		h.before, err = t.count(h.aside, nil)
	}
	return err
}

// Measure waits for the others. Where these have warmed the server's caches, it is only counted what came after that.
func (h *host) Measure(ctx context.Context, b *workload.Bench) (err error) {
	if b.Service.Trials == 0 {
		if h.before, err = h.target.count(h.aside, nil); err != nil {
			return err
		}
	}
	select {
	case <-b.Over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Report tells what the server did.
func (h *host) Report(b *workload.Bench) error {
	h.reportServer(b)
	return nil
}

// Reached makes what the trial on the server's side offers (workload.Bench) a service of a host that reaches it at an
// address.
func Reached(text string, at netip.Addr) (s workload.Serving, err error) {
	var e endpoint
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return s, fmt.Errorf("what the server's side offers: %w", err)
	}
	e.Address = netip.AddrPortFrom(at, uint16(e.Port)).String()
	whole, err := json.Marshal(e)
	return workload.Serving{Endpoint: string(whole), Starts: 1, Trials: e.Trials}, err
}

// admit lets other hosts in, with a password that is made for them, and nobody else: MariaDB's own accounts for the
// loopback have none.
func (t *target) admit(ctx context.Context) error {
	t.Key = rand.Text()
	texts := []string{"ALTER ROLE " + own + " PASSWORD '" + t.Key + "'"}
	if t.mysql() {
		texts = []string{"DROP USER IF EXISTS root@'127.0.0.1', root@'::1', ''@'localhost', " + own,
			"CREATE USER " + own + " IDENTIFIED BY '" + t.Key + "'", "GRANT ALL ON *.* TO " + own}
	}
	c, err := dial(ctx, t, false)
	if err != nil {
		return err
	}
	return errors.Join(run(c, texts...), c.close())
}

// Counts tells whether a state of a trial is one of a server's counters.
func Counts(state string) bool {
	return state == "buffer_miss_share" || strings.Contains(mysqlCounters+postgresCounters, "'"+state+"'")
}
