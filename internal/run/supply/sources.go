package supply

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/sys/sql"
	"tare/internal/sys/sql/datadir"
	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/log"
	"tare/internal/sys/sql/shop"
	"tare/internal/sys/sql/trace"
)

// dialectOf returns the dialect of a workload's server.
func dialectOf(p workload.Params) lex.Dialect {
	if p["server"] == lex.PostgreSQL.String() {
		return lex.PostgreSQL
	}
	return lex.MySQL
}

// shopOf returns the shop of a workload.
func shopOf(p workload.Params) shop.Shop {
	items, _ := strconv.Atoi(p["items"])
	views, _ := strconv.Atoi(p["views"])
	return shop.Shop{Dialect: dialectOf(p), Items: items, Views: views}
}

// names returns the file names in a parameter.
func names(value string) (all []string) {
	for name := range strings.SplitSeq(value, ",") {
		all = append(all, strings.TrimSpace(name))
	}
	return all
}

func checkLog(value string, p workload.Params) error {
	if value == Shop {
		return nil
	}
	for _, name := range names(value) {
		if name == "-" {
			return errors.New("standard input cannot be used here; write it to a file")
		}
		if err := checkFile(name, p); err != nil {
			return err
		}
	}
	_, src, err := openLog(value, p)
	if err == nil {
		err = src.Close()
	}
	return err
}

// openLog opens a log. It fails if the log has another dialect than the workload's server.
func openLog(value string, p workload.Params) (*log.Reader, io.Closer, error) {
	o, err := LogOptions(p["log-format"], p["prefix"], dialectOf(p).String(), p["zone"])
	if err != nil {
		return nil, nil, err
	}
	src := log.Join(Parts(names(value), nil)...)
	r, err := log.Open(src, o)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read %s: %w", value, err), src.Close())
	}
	if r.Dialect() != dialectOf(p) {
		return nil, nil, errors.Join(fmt.Errorf("%s is a log of %s, but the server is %s", value, r.Dialect(),
			p["server"]), src.Close())
	}
	return r, src, nil
}

func makeTrace(ctx context.Context, value string, p workload.Params, dst io.Writer) (*log.Account, error) {
	_, a, err := writeTrace(ctx, value, p, dst)
	return a, err
}

// Preview returns the description of the trace that a workload's log would make, and the account of the log, nil for
// the shop. It is nil for a workload without a log.
func Preview(ctx context.Context, w *plan.Workload) (*trace.Meta, *log.Account, error) {
	value := w.Params["log"]
	write := writeTrace
	switch serverOf(w) {
	case workload.DatabaseServer:
	case workload.WebServer:
		write = writeAccessTrace
	default:
		return nil, nil, nil
	}
	if value == "" {
		return nil, nil, nil
	}
	m, a, err := write(ctx, value, w.Params, io.Discard)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: log: %w", w.Label, err)
	}
	return m, a, nil
}

func writeTrace(ctx context.Context, value string, p workload.Params, dst io.Writer) (*trace.Meta, *log.Account,
	error) {
	shard, _ := strconv.ParseInt(p["shard"], 10, 64)
	w := trace.NewWriter(dst, trace.Meta{Shard: shard, Dialect: dialectOf(p), Sources: []string{Shop}})
	if value == Shop {
		return &w.Meta, nil, makeSessions(w, p)
	}
	r, src, err := openLog(value, p)
	if err != nil {
		return nil, nil, err
	}
	defer src.Close()
	w.Meta.Sources = nil
	for _, name := range names(value) {
		w.Meta.Sources = append(w.Meta.Sources, filepath.Base(name))
	}
	err = convert(ctx, r, log.Policy{Writes: p["writes"] == "true", Locks: p["locks"] == "true"}, w,
		p["order"] == "transactions")
	if err != nil {
		return nil, nil, err
	}
	a := r.Account()
	if a.Statements.Replayed == 0 {
		return nil, nil, fmt.Errorf("%s contains no statement to replay: %s", value,
			said(&a, "statements"))
	}
	return &w.Meta, &a, nil
}

// shopOpens is the start of the shop's sessions, 2026-01-01, in microseconds since 1970 UTC.
const shopOpens = 1_767_225_600_000_000

// makeSessions writes a trace of the shop's sessions.
func makeSessions(w *trace.Writer, p workload.Params) error {
	o := lex.Options{Dialect: w.Meta.Dialect}
	w.Meta.Start, w.Meta.Precision = shopOpens, 1
	n := &w.Meta.Statements
	err := shopOf(p).Sessions(func(session uint64, e *trace.Event) error {
		if e.Op.Statement() {
			v := lex.Classify(e.Text, o)
			e.Fingerprint, e.Volatile = w.Fingerprint(e.Text, v), v.Volatile != ""
			n.Total++
			n.Replayed++
		}
		w.Meta.Span = max(w.Meta.Span, e.At)
		return w.Add(session, e)
	})
	if err != nil {
		return err
	}
	return w.Close()
}

func checkData(value string, p workload.Params) error {
	if value == Shop {
		return nil
	}
	if !isDir(value) {
		return checkFile(value, p)
	}
	is, err := datadir.FamilyOf(value)
	if err != nil {
		return err
	}
	if (is == datadir.PostgreSQL) != (dialectOf(p) == lex.PostgreSQL) {
		return fmt.Errorf("%s is a data directory of %s, but the server is %s", value, is, p["server"])
	}
	return datadir.Idle(value)
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func makeData(ctx context.Context, value string, p workload.Params, dst io.Writer) (*log.Account, error) {
	if value == Shop {
		return nil, shopOf(p).Dump(dst)
	}
	if isDir(value) {
		return nil, datadir.Pack(dst, value)
	}
	return makeCopy(ctx, value, p, dst)
}

// checkTree returns an error if there is no such folder here.
func checkTree(value string, _ workload.Params) error {
	if info, err := os.Stat(value); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is no folder on this machine%s", value, because(err))
	}
	return nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

func makeTree(_ context.Context, value string, _ workload.Params, dst io.Writer) (*log.Account, error) {
	return nil, datadir.PackTree(dst, value)
}

// checkFile reads the first byte of a file.
func checkFile(name string, _ workload.Params) error {
	f, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = io.ReadFull(f, make([]byte, 1)); err == io.EOF {
		return fmt.Errorf("%s is empty", name)
	}
	return err
}

// makeCopy copies a file and decompresses it.
func makeCopy(_ context.Context, name string, _ workload.Params, dst io.Writer) (*log.Account, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_, err = io.Copy(dst, f)
	return nil, err
}

// makePassword writes the first line of a file, and a second line with random characters: the digest is visible as the
// name of the file in the environment, and that of the password alone could be guessed.
func makePassword(_ context.Context, name string, _ workload.Params, dst io.Writer) (*log.Account, error) {
	line, err := sql.Password(name)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(dst, "%s\n%s\n", line, rand.Text())
	return nil, err
}
