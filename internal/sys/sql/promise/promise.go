// Package promise reads what a database server's settings promise of a transaction that it has acknowledged: whether
// it survives a crash of the server, and a loss of power.
//
// It is opinionated: settings are compared by what they promise and not by their text. fdatasync and open_datasync
// promise the same, and sync_binlog promises nothing of a server without a binary log. A value that it does not know
// is unequal to nothing.
package promise

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// State is the state of a trial that has the settings of the server that did its work.
const State = "server_promises"

// DiskState is the state of a trial with a server that tare has not started. It is OnTarget if that has its data on the
// file system on which the target's work directory is; else it is not there.
const (
	DiskState = "server_disk"
	OnTarget  = "the target's"
)

// FlushCounters are the states of a trial that have how often its server called fsync or one of its relatives, as it
// counts that itself: of its log where it tells that apart, which is first. A server has some of them or none.
var FlushCounters = []string{"wal_sync", "Innodb_os_log_fsyncs", "Innodb_data_fsyncs"}

// Family is a family of servers.
type Family string

// The families.
const (
	MySQL      Family = "mysql" // and MariaDB
	PostgreSQL Family = "postgresql"
	SQLite     Family = "sqlite" // a library, with the settings of a connection
)

// The queries for the settings, whose rows are a name and a value each. They are asked by the user of the work and in
// its database, because both may have settings of their own. The names of standby servers stay where they are.
const (
	askMySQL = "SHOW VARIABLES WHERE Variable_name IN ('innodb_doublewrite','innodb_flush_log_at_trx_commit'," +
		"'innodb_flush_method','log_bin','sync_binlog')"
	askPostgreSQL = "SELECT name, CASE name WHEN 'synchronous_standby_names' THEN CASE setting WHEN '' THEN 'none' " +
		"ELSE 'set' END ELSE setting END FROM pg_settings WHERE name IN ('fsync','full_page_writes'," +
		"'synchronous_commit','synchronous_standby_names','wal_sync_method')"
)

// Ask is the query for the settings of a family.
func Ask(f Family) string {
	if f == PostgreSQL {
		return askPostgreSQL
	}
	return askMySQL
}

// AskFolder is the query for the directory of a server's data, one value that may be NULL.
func AskFolder(f Family) string {
	if f == PostgreSQL {
		return "SELECT max(setting) FROM pg_settings WHERE name = 'data_directory'"
	}
	return "SELECT @@datadir"
}

// Settings are a server's settings by their names.
type Settings struct {
	Family Family
	Values map[string]string
}

// What Parse takes.
const (
	mostBytes    = 4096
	mostSettings = 64
)

// Row adds a row of the answer to Ask. It never fails.
func (s *Settings) Row(columns [][]byte) error {
	if len(columns) == 2 {
		s.add(string(columns[0]), string(columns[1]))
	}
	return nil
}

// add adds a setting. One that Text could not write is left out.
func (s *Settings) add(name, value string) {
	if value == "" {
		value = unset
	}
	if s.Values == nil {
		s.Values = map[string]string{}
	}
	if word(name) && word(value) && len(s.Values) < mostSettings {
		s.Values[strings.ToLower(name)] = value
	}
}

// unset stands for a setting without a value.
const unset = "default"

func word(s string) bool {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == '=' }
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, odd)
}

// Text writes the settings as Parse reads them, in the order of their names; "" for none.
func (s Settings) Text() string {
	if len(s.Values) == 0 {
		return ""
	}
	words := []string{string(s.Family)}
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		words = append(words, name+"="+s.Values[name])
	}
	return strings.Join(words, " ")
}

// Parse reads what Text has written.
func Parse(text string) (s Settings, err error) {
	if len(text) > mostBytes {
		return s, fmt.Errorf("settings of a server: %d bytes are too many", len(text))
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return s, nil
	}
	s.Family = Family(words[0])
	for _, w := range words[1:] {
		name, value, ok := strings.Cut(w, "=")
		if !ok || !word(name) || !word(value) {
			return Settings{}, fmt.Errorf("settings of a server: %q is not name=value", w)
		}
		s.add(name, value)
	}
	return s, nil
}

// setting says what the values of a setting promise.
type setting struct {
	family Family
	name   string
	// level is higher for a value that promises more; not ok if it is not known.
	level func(of Settings, value string) (level int64, ok bool)
	// waits says that with a lower level a server waits for fewer flushes, and does not only write less.
	waits bool
	loses string // what less of it may lose
}

// ranked gives levels to words, those with the same one in one text.
func ranked(worst ...string) func(Settings, string) (int64, bool) {
	return func(_ Settings, value string) (int64, bool) {
		for i, words := range worst {
			if slices.Contains(strings.Fields(words), strings.ToLower(value)) {
				return int64(i), true
			}
		}
		return 0, false
	}
}

const lostAtPower = "a loss of power may take transactions that were acknowledged"

var settings = []setting{
	{MySQL, "innodb_flush_log_at_trx_commit", ranked("0", "2", "1 3"), true, lostAtPower},
	{MySQL, "sync_binlog", binlog, true, lostAtPower},
	{MySQL, "innodb_flush_method", ranked("nosync", "littlesync", "o_direct_no_fsync",
		unset+" fsync fdatasync o_dsync o_direct all_o_direct normal unbuffered async_unbuffered"), true, lostAtPower},
	{MySQL, "innodb_doublewrite", ranked("off 0", "detect_only", "on 1 fast detect_and_recover"), false,
		"a loss of power may leave half-written pages"},
	{PostgreSQL, "fsync", ranked("off", "on"), true, "a loss of power may destroy the database"},
	{PostgreSQL, "synchronous_commit", commit, true, lostAtPower},
	{PostgreSQL, "wal_sync_method", ranked("fsync fdatasync open_sync open_datasync", "fsync_writethrough"), true,
		lostAtPower},
	{PostgreSQL, "full_page_writes", ranked("off", "on"), false, "a loss of power may leave half-written pages"},
	{SQLite, "synchronous", ranked("off 0", "normal 1", "full 2", "extra 3"), true, lostAtPower},
	{SQLite, "journal_mode", ranked("off", "memory", "delete truncate persist wal"), true,
		"a crash may destroy the database"},
}

// SameCalls tells whether two servers flush with the same system calls, so that what they count of them is alike: what
// is written with O_DSYNC needs none.
func SameCalls(a, b Settings) bool {
	for _, name := range []string{"innodb_flush_method", "wal_sync_method"} {
		if a.Values[name] != b.Values[name] {
			return false
		}
	}
	return a.Family == b.Family
}

// binlog is of sync_binlog: the number of transactions in the binary log between two flushes, 0 for no flush.
func binlog(of Settings, value string) (int64, bool) {
	n, err := strconv.ParseInt(value, 10, 64)
	switch on := strings.ToLower(of.Values["log_bin"]); {
	case err != nil || n < 0:
		return 0, false
	case on == "off" || on == "0":
		return -1, true // there is nothing to flush
	case n == 0:
		return -1 << 62, true
	}
	return -n, true
}

// commit is of synchronous_commit: without standby servers, all values but off wait for the server's own disk.
func commit(of Settings, value string) (int64, bool) {
	level, ok := ranked("off", "local", "remote_write", "on", "remote_apply")(of, value)
	if level > 1 && of.Values["synchronous_standby_names"] == "none" {
		level = 1
	}
	return level, ok
}

// Difference is a setting by which one server promises less than another.
type Difference struct {
	Name, A, B string // the values
	Less       int    // below 0: A promises less; above 0: B does
	Waits      bool   // the one that promises less waits for fewer flushes
	Loses      string // what it may lose
}

// Compare returns the settings by which two servers promise different things, the most telling first. What is not
// known of one of them is left out.
func Compare(a, b Settings) (all []Difference) {
	if a.Family != b.Family {
		return nil
	}
	for _, s := range settings {
		if s.family != a.Family {
			continue
		}
		x, y := a.Values[s.name], b.Values[s.name]
		low, known := s.level(a, x)
		high, knownToo := s.level(b, y)
		if known && knownToo && low != high {
			all = append(all, Difference{s.name, x, y, cmp.Compare(low, high), s.waits, s.loses})
		}
	}
	return all
}
