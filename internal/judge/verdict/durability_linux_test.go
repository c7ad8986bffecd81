package verdict

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
	"tare/internal/sys/sql/promise"
)

// writingServer starts a server with these settings, and returns what does a trial of writing there.
func writingServer(t *testing.T, product, settings string) func(*record.Trial) {
	t.Helper()
	w := resolved(t, "sql.oltp:mix=write-only,rows=100,lanes=2,server="+product)
	w.Params["settings"] = settings
	k, _ := all.Lookup("sql.oltp")
	dir, err := os.MkdirTemp("", "tare-durability-test-") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	server, err := k.Service(w.Params).Start(t.Context(), &workload.Bench{Dir: dir, Seed: 1})
	if f, ok := errors.AsType[*record.Failure](err); ok && f.Kind == "refused" && os.Getenv("TARE_REQUIRE") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return func(tr *record.Trial) {
		b := &workload.Bench{Dir: t.TempDir(), Work: 20, Seed: 1,
			Service: workload.Serving{Endpoint: server.Endpoint(), Starts: 1, Trials: 1}}
		trial, err := k.New(w.Params)
		if err == nil {
			err = workload.Drive(t.Context(), trial, b)
		}
		if err != nil {
			t.Fatal(err)
		}
		tr.Work, tr.AgentNS, tr.ControllerNS, tr.Figures = b.Work, int64(b.Elapsed), int64(b.Elapsed), b.Figures
	}
}

// TestRealPromises measures writing on real servers whose settings promise different things, and on ones that are set
// alike, also where only the servers' counts of their flushes are told. All of them write to the same disk.
func TestRealPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}
	for _, c := range []struct {
		product, strict, lax, says string
		counts                     bool // what differs is among what the server counts
	}{
		{"mariadb", "innodb_flush_log_at_trx_commit=1;log_bin=log;sync_binlog=1",
			"innodb_flush_log_at_trx_commit=2;innodb_flush_method=O_DIRECT",
			"innodb_flush_log_at_trx_commit is 2 in vm and 1 in host, so vm promises less", true},
		{"mariadb", "log_bin=log;sync_binlog=1", "log_bin=log;sync_binlog=0",
			"sync_binlog is 0 in vm and 1 in host, so vm promises less", false},
		{"postgresql", "wal_sync_method=fdatasync", "synchronous_commit=off;wal_sync_method=open_datasync",
			"synchronous_commit is off in vm and on in host, so vm promises less", true},
	} {
		t.Run(c.product, func(t *testing.T) {
			strict, lax := writingServer(t, c.product, c.strict), writingServer(t, c.product, c.lax)
			w := resolved(t, "sql.oltp:mix=write-only,rows=100,lanes=2,server="+c.product)
			for _, sides := range []struct {
				host, vm func(*record.Trial)
				differ   bool
			}{{strict, lax, true}, {strict, strict, false}, {lax, lax, false}} {
				var counted, methods string // of the last trial
				judged := func(tells bool) *Cell {
					return cell(t, two(w).trials(func(tr *record.Trial) {
						if tr.Target == "vm" {
							sides.vm(tr)
						} else {
							sides.host(tr)
						}
						counted = fmt.Sprint(tr.State["wal_sync"], tr.State["Innodb_data_fsyncs"])
						methods = tr.State[promise.State]
						if !tells {
							delete(tr.State, promise.State)
						}
					}).evaluate(), w.Label, "", "vm")
				}
				got := judged(true)
				warned := warning(got, "durability-differs")
				if sides.differ != (warned != nil) || sides.differ && (got.Ratio.Center != 0 || got.Center == 0 ||
					got.Verdict != record.Withheld || !strings.HasPrefix(warned.Text, c.says)) {
					t.Errorf("settings differ %v: %+v", sides.differ, got)
				}
				if !c.counts {
					continue
				}
				got = judged(false)
				warned = warning(got, FlushesDiffer)
				if sides.differ != (warned != nil) || sides.differ && (got.Verdict != record.Withheld ||
					!strings.Contains(warned.Text, "servers counted")) {
					t.Errorf("flushes differ %v: %+v, counted %s with %s", sides.differ, got, counted, methods)
				}
			}
		})
	}
}
