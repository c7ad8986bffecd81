package verdict

import (
	"maps"
	"strings"
	"testing"

	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/sql/promise"
)

// flushing has the disks of host and of vm count so many flushes in each trial.
func flushing(host, vm int64) func(*record.Trial) {
	return func(t *record.Trial) {
		t.Account = &record.Account{Lanes: 1, Counts: map[string]int64{record.DiskFlushes: host}}
		if t.Target == "vm" {
			t.Account.Counts[record.DiskFlushes] = vm
		}
	}
}

// TestFlushesByTheCounters: a trial is 1,000 units in 0.3 s.
func TestFlushesByTheCounters(t *testing.T) {
	command, journal := on("command", "command=x"), on("dev.journal", "fsync=true")
	classes := func(host, vm string) func(*record.Environment) {
		return func(re *record.Environment) {
			re.Durability = &record.Durability{Class: map[string]string{"host": host, "vm": vm}[re.Name]}
		}
	}
	cache := func(host, vm string) func(*record.Environment) {
		return func(re *record.Environment) {
			re.Inside.Extra["work.disk.write_cache"] = map[string]string{"host": host, "vm": vm}[re.Name]
		}
	}
	shared := func(kind string) func(*record.Environment) {
		return inVM(func(re *record.Environment) {
			re.Inside.WorkFS, re.Mount = kind+" (rw)", &record.Mount{Kind: kind, Type: kind}
		})
	}
	writes := func(f func(*record.Trial)) func(*record.Trial) {
		return func(t *record.Trial) {
			f(t)
			t.Account.Counts[record.DeviceWrittenBytes] = 4096
		}
	}
	lanes := func(n float64, f func(*record.Trial)) func(*record.Trial) {
		return func(t *record.Trial) {
			f(t)
			t.Account.Lanes = n
		}
	}
	for _, c := range []struct {
		name   string
		work   plan.Workload
		cost   float64
		env    func(*record.Environment)
		trial  func(*record.Trial)
		differ bool
	}{
		{"flushes and none", command, 0.2, nil, flushing(5200, 0), true},
		{"none in the baseline", command, 5, nil, flushing(0, 5200), true},
		{"a third", command, 0.9, nil, writes(flushing(3000, 900)), true},
		{"a third, of work that waits for little else", command, 0.3, nil, writes(flushing(3000, 900)), true},
		{"half", command, 0.5, nil, flushing(3000, 1500), false},
		{"none on either side", command, 0.5, nil, flushing(0, 0), false},
		{"commits of a journal", command, 0.5, nil, flushing(3, 0), false},
		{"in one trial of three only", command, 0.5, nil, func(t *record.Trial) {
			flushing(0, 0)(t)
			if t.Block%3 == 0 && t.Target == "host" {
				t.Account.Counts[record.DiskFlushes] = 900
			}
		}, false},
		{"another program's, longer in the slower side", command, 8, nil, flushing(100, 800), false},
		{"nothing is counted", command, 0.5, nil, nil, false},
		{"one side counts", command, 0.5, nil, vmTrials(flushing(0, 900)), false},
		{"on a file system over the network", command, 0.5, shared("nfs"), flushing(5200, 0), false},
		{"a disk without a cache is asked for no flush", command, 0.5, cache("write back", "write through"),
			flushing(5200, 0), false},
		{"a disk with one", command, 0.5, cache("write back", "write back"), flushing(5200, 0), true},
		{"memory, of which no counter tells", command, 0.5, classes(flushes, "memory"), func(t *record.Trial) {
			if t.Target == "host" {
				flushing(5200, 0)(t)
			}
		}, true},
		{"flushes that are ignored below", command, 0.5, classes(flushes, "ignores-flushes"), flushing(5200, 5200),
			true},
		{"memory, and nothing is flushed", command, 0.5, classes(flushes, "memory"), flushing(0, 0), false},
		{"declared, and none", journal, 0.5, nil, flushing(1000, 0), true},
		{"declared, alike", journal, 0.5, nil, flushing(1000, 1100), false},
		{"lanes that share flushes", journal, 2, nil, lanes(8, flushing(1000, 150)), false},
		{"lanes, and none", journal, 0.5, nil, lanes(8, flushing(1000, 0)), true},
		{"reads", on("fs.randread"), 0.5, nil, flushing(1000, 0), false},
		{"files that are left to the system", on("fs.seqwrite", "fsync=none"), 0.5, nil, flushing(1000, 0), false},
	} {
		costs := map[string]float64{c.work.Label + " vm": c.cost}
		r := two(c.work, on("command", "command=other")).costs(costs).envs(c.env).trials(func(tr *record.Trial) {
			if c.trial != nil && tr.Workload == c.work.Label {
				c.trial(tr)
			}
		}).evaluate()
		got := cell(t, r, c.work.Label, "", "vm")
		w := warning(got, FlushesDiffer)
		declared := c.work.Kind != "command"
		if c.differ != (w != nil) || (c.differ && declared) != (got.Verdict == record.Withheld) ||
			(c.differ && declared) != (got.Ratio.Center == 0) {
			t.Errorf("%s: %s, ratio %g, %v", c.name, got.Verdict, got.Ratio.Center, got.Warnings)
		}
		if w != nil && !strings.Contains(w.Text, " for each ") {
			t.Errorf("%s: no counts: %s", c.name, w.Text)
		}
		if w != nil && (got.Verdict == record.Different || len(got.Tails) > 0 || got.Spread != nil) {
			t.Errorf("%s: it is ranked: %+v", c.name, got)
		}
		found := 0
		for _, f := range r.Findings {
			if f.Code == FlushesDiffer {
				found++
				if (f.Severity == Withhold) != declared {
					t.Errorf("%s: %+v", c.name, f)
				}
			}
		}
		if c.differ != (found == 1) {
			t.Errorf("%s: %d findings", c.name, found)
		}
		if c.differ && !declared && (len(r.Families) != 1 || r.Families[0].Cells != 1 || r.Families[0].Unlike != 1) {
			t.Errorf("%s: the mean: %+v", c.name, r.Families)
		}
	}
}

// TestFlushesByTheServers: a trial is 1,000 units in 0.3 s, and the disks tell nothing.
func TestFlushesByTheServers(t *testing.T) {
	counts := func(host, vm map[string]string) func(*record.Trial) {
		return func(t *record.Trial) {
			state := host
			if t.Target == "vm" {
				state = vm
			}
			t.State = maps.Clone(state)
		}
	}
	one := func(name, value string) map[string]string { return map[string]string{name: value} }
	with := func(state map[string]string, promises string) map[string]string {
		state[promise.State] = promises
		return state
	}
	const log, data = "Innodb_os_log_fsyncs", "Innodb_data_fsyncs"
	for _, c := range []struct {
		name   string
		work   string
		trial  func(*record.Trial)
		differ bool
	}{
		{"one for each, and none", "write-only", counts(one("wal_sync", "1000"), one("wal_sync", "0")), true},
		{"alike", "write-only", counts(one("wal_sync", "1000"), one("wal_sync", "1200")), false},
		{"reads", "read-only", counts(one("wal_sync", "1000"), one("wal_sync", "0")), false},
		{"what the servers count is not the same", "write-only", counts(one(data, "9000"), one(log, "1000")), false},
		{"of the log alone", "write-only", counts(map[string]string{data: "9000", log: "1000"},
			map[string]string{data: "1001", log: "1000"}), false},
		{"one with O_DSYNC", "write-only", counts(
			with(one("wal_sync", "1000"), "postgresql wal_sync_method=fdatasync"),
			with(one("wal_sync", "0"), "postgresql wal_sync_method=open_datasync")), false},
		{"one does not tell", "write-only", counts(one("wal_sync", "1000"), nil), false},
		{"no number", "write-only", counts(one("wal_sync", "1000"), one("wal_sync", "x")), false},
	} {
		w := resolved(t, "sql.oltp:lanes=1,server=postgresql,mix="+c.work)
		got := cell(t, two(w).trials(c.trial).evaluate(), w.Label, "", "vm")
		if warned := warning(got, FlushesDiffer); c.differ != (warned != nil) ||
			c.differ && (got.Verdict != record.Withheld || !strings.Contains(warned.Text, "servers counted")) {
			t.Errorf("%s: %s, %v", c.name, got.Verdict, got.Warnings)
		}
	}
}
