package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tare/internal/sys/proc"
	"tare/internal/sys/sql/log"
	"tare/internal/version"
)

const (
	inspectBytes = 64 << 20
	streamBytes  = 1 << 30
)

// inspectRows read a general log of MariaDB: beside a peer, and a long one alone.
func inspectRows() []row {
	return []row{
		{
			name: "sql-inspect", what: "say what is in a general log of 64 MiB whose statements have several lines: " +
				"bytes for each second of processor time, on one processor",
			peer:     "pt-query-digest --type genlog",
			programs: []string{"pt-query-digest"}, open: openInspect,
			figures: []figure{{unit: "B/s", goal: 100}},
		},
		{
			name: "sql-stream", what: "the same of 1 GiB that come through standard input",
			open: openStream,
			figures: []figure{{name: "rate", unit: "B/s", goal: 250e6},
				{name: "peak memory", unit: "MB", goal: 64, atMost: true}},
		},
	}
}

func openInspect(ctx context.Context, b *bench) (*contest, error) {
	tare, err := b.buildTare(ctx)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(b.dir, "general.log")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	l := newGeneralLog(b.seed, inspectBytes)
	_, err = io.Copy(f, l)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	argv := []string{"pt-query-digest", "--type", "genlog", "--no-version-check", "--limit", "100%", "--output", "json",
		path}
	return &contest{
		tare: func(ctx context.Context) ([]float64, error) {
			cmd := inspectCommand(ctx, tare, path)
			out, err := proc.RunCmd(cmd, nil)
			if err == nil {
				err = l.checkInspect(out)
			}
			return []float64{perSecond(l.bytes, cmd)}, err
		},
		peer: func(ctx context.Context) ([]float64, error) {
			cmd := proc.Command(ctx, argv...)
			cmd.Env = append(os.Environ(), "LC_ALL=C")
			out, err := proc.RunCmd(cmd, nil)
			if err == nil {
				err = l.checkDigest(out)
			}
			return []float64{perSecond(l.bytes, cmd)}, err
		},
		notes: []string{
			fmt.Sprintf("the log is generated: %d statements in %d sessions, %d bytes; both must find all of them",
				l.statements, l.sessions, l.bytes),
			"tare: `GOMAXPROCS=1 tare sql inspect --format json --top 0 LOG`, its start included",
			"pt-query-digest: `" + strings.ReplaceAll(strings.Join(argv, " "), path, "LOG") + "`, its start included",
		},
		close: func() error { return errors.Join(os.Remove(path), os.Remove(tare)) },
	}, nil
}

func openStream(ctx context.Context, b *bench) (*contest, error) {
	tare, err := b.buildTare(ctx)
	if err != nil {
		return nil, err
	}
	return &contest{
		tare: func(ctx context.Context) ([]float64, error) {
			l := newGeneralLog(b.seed, streamBytes)
			cmd := inspectCommand(ctx, tare, "-")
			out, err := proc.RunCmd(cmd, l)
			if err != nil {
				return nil, err
			}
			peak, err := peakMB(cmd.ProcessState)
			return []float64{perSecond(l.bytes, cmd), peak}, errors.Join(err, l.checkInspect(out))
		},
		notes: []string{
			"tare: `GOMAXPROCS=1 tare sql inspect --format json --top 0 -`; the log of the row sql-inspect, longer; " +
				"every byte of it must be accounted for; the memory is the largest resident set of the process",
		},
		close: func() error { return os.Remove(tare) },
	}, nil
}

// buildTare makes the program from this source tree.
func (b *bench) buildTare(ctx context.Context) (string, error) {
	path := filepath.Join(b.dir, "tare")
	cmd := proc.Command(ctx, "go", "build", "-trimpath", "-ldflags",
		"-s -w -X tare/internal/version.Build="+version.Build, "-o", path, "tare/cmd/tare")
	if _, err := proc.RunCmd(cmd, nil); err != nil {
		return "", fmt.Errorf("build tare: %w", err)
	}
	return path, nil
}

func inspectCommand(ctx context.Context, tare, path string) *proc.Cmd {
	cmd := proc.Command(ctx, tare, "sql", "inspect", "--format", "json", "--top", "0", path)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	return cmd
}

// perSecond is a number of bytes for each second of processor time of a program that has ended.
func perSecond(n int64, cmd *proc.Cmd) float64 {
	if cmd.ProcessState == nil {
		return 0
	}
	return float64(n) / (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// generalLog is a general log as MariaDB 10.11 writes it, made while it is read.
type generalLog struct {
	rng    *rand.Rand
	bodies [][]byte
	left   int64
	buf    []byte // the record, and what of it was not read yet
	rest   []byte
	now    time.Time
	open   []int // ids of sessions
	last   int

	bytes                int64 // so far
	statements, sessions int64
}

// logKinds is how many kinds of statements a log has, and logBodies how many statements.
const (
	logKinds    = 200
	logBodies   = 20_000
	logSessions = 40
)

func newGeneralLog(seed uint64, size int64) *generalLog {
	l := &generalLog{rng: rand.New(rand.NewPCG(seed, 0x73716c)), left: size,
		now: time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)}
	for range logBodies {
		l.bodies = append(l.bodies, []byte(l.statement(l.rng.IntN(logKinds))))
	}
	l.rest = []byte("/usr/sbin/mariadbd, Version: 10.11.14-MariaDB-0+deb12u2-log (Debian 12). started with:\n" +
		"Tcp port: 0  Unix socket: /run/mysqld/mysqld.sock\nTime\t\t    Id Command\tArgument\n")
	l.count()
	return l
}

// statement makes one of a kind, as a program with templates writes it.
func (l *generalLog) statement(kind int) string {
	n := func() int { return l.rng.IntN(1_000_000) }
	switch table := kind / 5; kind % 5 {
	case 0:
		return fmt.Sprintf("SELECT i.id, i.name, COUNT(*) AS times\n  FROM order_line_%d a\n  JOIN order_line_%d b "+
			"ON b.orders = a.orders AND b.item <> a.item\n  JOIN item i ON i.id = b.item\n WHERE a.item = %d\n   "+
			"AND a.orders BETWEEN %d AND %d\n GROUP BY i.id, i.name\n ORDER BY COUNT(*) DESC, i.id\n LIMIT 5",
			table, table, n(), n(), n())
	case 1:
		return fmt.Sprintf("SELECT /* Item%d::load */\n       id, category, name, price, stock, description\n  "+
			"FROM item_%d\n WHERE id = %d", table, table, n())
	case 2:
		return fmt.Sprintf("INSERT INTO review_%d\n  (item, customer, text)\nVALUES\n  (%d, %d, '%s\\'s\n%s')", table,
			n(), n(), l.words(30), l.words(30))
	case 3:
		return fmt.Sprintf("UPDATE item_%d\n   SET stock = stock - %d,\n       name = '%s'\n WHERE id = %d", table, n(),
			l.words(2), n())
	default:
		list := make([]string, 20)
		for i := range list {
			list[i] = fmt.Sprint(n())
		}
		return fmt.Sprintf("SELECT id, name, price\n  FROM item_%d\n WHERE id IN (%s)\n ORDER BY price, id\n LIMIT 20",
			table, strings.Join(list, ", "))
	}
}

func (l *generalLog) words(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = [...]string{"lamp", "chair", "table", "red", "green", "of", "a", "customer"}[l.rng.IntN(8)]
	}
	return strings.Join(all, " ")
}

// count takes what is about to be read.
func (l *generalLog) count() {
	l.bytes += int64(len(l.rest))
	l.left -= int64(len(l.rest))
}

// Read never ends amid a record.
func (l *generalLog) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(l.rest) == 0 {
			if l.left <= 0 {
				break
			}
			l.buf = l.record(l.buf[:0])
			l.rest = l.buf
			l.count()
		}
		k := copy(p[n:], l.rest)
		l.rest = l.rest[k:]
		n += k
	}
	if n == 0 {
		err = io.EOF
	}
	return n, err
}

// record appends a statement, and before it what happens to sessions. The log has the time where it is a new second.
func (l *generalLog) record(b []byte) []byte {
	stamp := "\t\t"
	if l.rng.IntN(100) == 0 {
		l.now = l.now.Add(time.Second)
		stamp = l.now.Format("060102 ") + fmt.Sprintf("%2d", l.now.Hour()) + l.now.Format(":04:05\t")
	}
	of := l.rng.IntN(logSessions)
	switch {
	case len(l.open) < logSessions:
		of = len(l.open)
		l.open = append(l.open, 0)
		b, stamp = l.connect(b, of, stamp)
	case l.rng.IntN(50) == 0:
		b = fmt.Appendf(b, "%s%6d Quit\t\n", stamp, l.open[of])
		b, stamp = l.connect(b, of, "\t\t")
	}
	l.statements++
	b = fmt.Appendf(b, "%s%6d Query\t", stamp, l.open[of])
	return append(append(b, l.bodies[l.rng.IntN(len(l.bodies))]...), '\n')
}

func (l *generalLog) connect(b []byte, of int, stamp string) (out []byte, next string) {
	l.last++
	l.sessions++
	l.open[of] = l.last
	return fmt.Appendf(b, "%s%6d Connect\tshop@localhost on shop using Socket\n", stamp, l.last), "\t\t"
}

// checkInspect makes sure that tare saw the whole log.
func (l *generalLog) checkInspect(out []byte) error {
	var s log.Summary
	if err := json.Unmarshal(out, &s); err != nil {
		return fmt.Errorf("read tare's summary: %w", err)
	}
	a := s.Account
	if a.Bytes.Total != l.bytes || a.Statements.Total != l.statements || a.Statements.Ambiguous+a.Statements.Lost > 0 ||
		s.Sessions.Total != l.sessions {
		return fmt.Errorf("tare found %+v and %d sessions in a log of %d bytes, %d statements and %d sessions", a,
			s.Sessions.Total, l.bytes, l.statements, l.sessions)
	}
	return nil
}

// checkDigest makes sure that pt-query-digest did: it counts what begins and ends a session as queries.
func (l *generalLog) checkDigest(out []byte) error {
	n, err := parseDigest(out)
	if want := l.statements + 2*l.sessions - int64(len(l.open)); err == nil && n != want {
		err = fmt.Errorf("pt-query-digest found %d queries, and there are %d", n, want)
	}
	return err
}

// parseDigest reads the number of queries from pt-query-digest's report in JSON.
func parseDigest(out []byte) (int64, error) {
	begin := bytes.IndexByte(out, '{')
	if begin < 0 {
		return 0, fmt.Errorf("read pt-query-digest's report: it is no JSON: %.200q", out)
	}
	var r struct {
		Global struct {
			Count int64 `json:"query_count"`
		} `json:"global"`
	}
	if err := json.Unmarshal(out[begin:], &r); err != nil {
		return 0, fmt.Errorf("read pt-query-digest's report: %w", err)
	}
	if r.Global.Count < 1 {
		return 0, errors.New("read pt-query-digest's report: it counts no queries")
	}
	return r.Global.Count, nil
}
