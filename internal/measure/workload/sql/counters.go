package sql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/sys/proc"
	"tare/internal/sys/sql"
)

// counters are a server's counters of its work since its start.
type counters struct {
	of  map[string]int64 // by the server's names
	cpu time.Duration    // of all processes of a private server; -1 if it is not known
}

const (
	mysqlCounters = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_select','Created_tmp_disk_tables'," +
		"'Handler_read_first','Handler_read_key','Handler_read_next','Handler_read_prev','Handler_read_rnd'," +
		"'Handler_read_rnd_next','Innodb_buffer_pool_read_requests','Innodb_buffer_pool_reads'," +
		"'Innodb_data_fsyncs','Innodb_os_log_fsyncs','Rows_sent')"
	postgresCounters = "SELECT c.key, c.value FROM pg_stat_database d, json_each_text(row_to_json(d)) c " +
		"WHERE d.datname = current_database() AND c.key IN ('blks_hit','blks_read','temp_files','tup_deleted'," +
		"'tup_fetched','tup_inserted','tup_returned','tup_updated','xact_commit','xact_rollback')"
	// Releases from 14 on have this view, and from 18 on it has no flushes.
	postgresFlushes = "SELECT c.key, c.value FROM pg_stat_wal w, json_each_text(row_to_json(w)) c " +
		"WHERE c.key = 'wal_sync'"
)

// count reads the counters on a connection, after what was done on others.
func (t *target) count(c client, others []client) (counters, error) {
	now := counters{of: map[string]int64{}, cpu: -1}
	var err error
	for _, o := range others {
		if e := o.settle(); e != nil && !errors.Is(e, sql.ErrGone) { // what has ended is counted
			err = e
		}
	}
	if t.private {
		if used, err := proc.FamilyCPUTime(t.PID); err == nil {
			now.cpu = used
		}
	}
	if err != nil {
		return now, err
	}
	text := mysqlCounters
	if !t.mysql() {
		text = postgresCounters
	}
	row := func(v [][]byte) error {
		if len(v) != 2 {
			return errors.New("a counter is not a name and a number")
		}
		n, err := strconv.ParseInt(string(v[1]), 10, 64)
		now.of[string(v[0])] = n
		return err
	}
	err = c.query([]byte(text), &answer{row: row})
	if p, ok := c.(*postgresClient); err == nil && ok && p.tellsFlushes() {
		err = c.query([]byte(postgresFlushes), &answer{row: row})
		if _, ok := errors.AsType[*refusal](err); ok {
			err = nil // what speaks this protocol need not have the view
		}
	}
	if err != nil {
		return now, fmt.Errorf("read the server's counters: %w", err)
	}
	return now, nil
}

// did returns what a server has counted since before, and notes it. c has waited while others worked, and the server
// may have closed it for that: then it asks on another connection. Without an answer there are no counters, but a trial
// loses no other figures for that.
func (t *target) did(b *workload.Bench, before counters, c client, others []client) counters {
	after, err := t.count(c, others)
	if err != nil {
		cpu := after.cpu // before the server spends more on the other connection
		after, err = t.countAnew(others)
		after.cpu = cpu
	}
	if err != nil {
		b.Warn("sql-counters", fmt.Sprintf("the server's counters could not be read after the work: %v", err),
			"the other figures are valid; check the server's connection limits")
		return counters{cpu: after.cpu}.since(before)
	}
	d := after.since(before)
	d.note(b)
	return d
}

// countAnew reads the counters on a connection of its own.
func (t *target) countAnew(others []client) (counters, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	beside := *t
	beside.untold = false // it belongs to no lane
	c, err := dial(ctx, &beside, true)
	if err != nil {
		return counters{}, err
	}
	defer context.AfterFunc(ctx, c.interrupt)()
	now, err := t.count(c, others)
	_ = c.close() // there is nothing of it that could be lost
	return now, err
}

// since returns what was counted after an earlier time. A counter that does not exist any more is left out.
func (c counters) since(before counters) counters {
	d := counters{of: map[string]int64{}, cpu: -1}
	for name, n := range c.of {
		if was, ok := before.of[name]; ok {
			d.of[name] = n - was
		}
	}
	// A child's time is exact while it runs, and in ticks after its end: a short time may seem negative.
	if before.cpu >= 0 && c.cpu > before.cpu {
		d.cpu = c.cpu - before.cpu
	}
	return d
}

// pages returns how many pages were asked for, and how many of them were not in the server's memory.
func (c counters) pages() (asked, missed int64) {
	if n, ok := c.of["blks_hit"]; ok {
		return n + c.of["blks_read"], c.of["blks_read"]
	}
	return c.of["Innodb_buffer_pool_read_requests"], c.of["Innodb_buffer_pool_reads"]
}

// missShare is the share of pages that were not in the server's memory, 0 if none was asked for.
func (c counters) missShare() float64 {
	asked, missed := c.pages()
	if asked <= 0 {
		return 0
	}
	return float64(missed) / float64(asked)
}

// note adds the counters to a trial's state.
func (c counters) note(b *workload.Bench) {
	for _, name := range slices.Sorted(maps.Keys(c.of)) {
		b.Note(name, strconv.FormatInt(c.of[name], 10))
	}
	b.Note("buffer_miss_share", strconv.FormatFloat(c.missShare(), 'g', 3, 64))
}
