package sql

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"tare/internal/measure/dbserver"
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
	t.notePromises(b, h.aside)
	text, err := json.Marshal(&endpoint{Network: "tcp", User: own, Password: t.Key, Database: t.Database,
		Version: t.Version, Port: t.Port, Trials: b.Service.Trials})
	b.Offer = string(text)
	return err
}

// Measure waits for the others, and begins a moment before them: what they did to prepare, such as to warm the server's
// caches, is not counted.
func (h *host) Measure(ctx context.Context, b *workload.Bench) (err error) {
	if h.before, err = h.target.count(h.aside, nil); err != nil {
		return err
	}
	select {
	case <-b.Over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Report reports the server's use.
func (h *host) Report(b *workload.Bench) error {
	h.reportServer(b)
	return nil
}

// Reached makes what the trial on the server's side offers (workload.Bench) a service of a host; way says where that
// finds a port.
func Reached(text string, way func(port uint16) (netip.AddrPort, error)) (s workload.Serving, err error) {
	var e endpoint
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return s, fmt.Errorf("what the server's side offers: %w", err)
	}
	at, err := way(uint16(e.Port))
	if err != nil {
		return s, err
	}
	e.Address = at.String()
	whole, err := json.Marshal(e)
	return workload.Serving{Endpoint: string(whole), Starts: 1, Trials: e.Trials}, err
}

// admit lets other hosts in as the user own, with a password that is made for them, and as nobody else: what a dump has
// brought, and what MariaDB makes for the loopback, is locked. PostgreSQL is started so that it takes no other.
func (t *target) admit(ctx context.Context) error {
	t.Key = rand.Text()
	// Up to version 13 of PostgreSQL a password is kept as a digest that its own rule for other hosts refuses.
	texts := []string{"SET password_encryption = 'scram-sha-256'", "ALTER ROLE " + own + " PASSWORD '" + t.Key + "'"}
	c, err := dial(ctx, t, false)
	if err != nil {
		return err
	}
	if t.mysql() {
		texts = []string{"CREATE USER " + own + " IDENTIFIED BY '" + t.Key + "'", "GRANT ALL ON *.* TO " + own}
		err = t.lock(c)
	}
	if err == nil {
		err = run(c, texts...)
	}
	return errors.Join(err, c.close())
}

// lock locks the accounts of MariaDB or MySQL but those that the server itself needs, which are for the socket, and
// drops those with the name own. Unlike one that is dropped, an account that is locked still defines its views.
func (t *target) lock(c client) error {
	// A dump may have written to the tables of accounts, which count from the next start on.
	if err := run(c, "FLUSH PRIVILEGES"); err != nil {
		return err
	}
	text := "SELECT User, Host FROM mysql.user WHERE NOT (Host = 'localhost' AND User IN " +
		"('root', 'mariadb.sys', 'mysql.sys', 'mysql.session', 'mysql.infoschema'))"
	if t.product == dbserver.MariaDB {
		text += " AND is_role = 'N'" // by a role nobody logs in
	}
	var accounts [][2]string
	err := c.query([]byte(text), &answer{row: func(v [][]byte) error {
		accounts = append(accounts, [2]string{string(v[0]), string(v[1])})
		return nil
	}})
	for _, a := range accounts {
		if a[1] == "" {
			return fmt.Errorf("account %q is for all hosts and cannot be locked: leave it out of the dump", a[0])
		}
		name := quoted(a[0]) + "@" + quoted(a[1])
		refused := a[0] == own || run(c, "ALTER USER "+name+" ACCOUNT LOCK") != nil // old releases have no lock
		if refused && err == nil {
			err = run(c, "DROP USER "+name)
		}
	}
	return err
}

// quoted is a name as MySQL has it in a statement.
func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Counts tells whether a state of a trial is one of a server's counters.
func Counts(state string) bool {
	return state == "buffer_miss_share" ||
		strings.Contains(mysqlCounters+postgresCounters+postgresFlushes, "'"+state+"'")
}
