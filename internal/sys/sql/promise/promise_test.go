package promise

import (
	"strings"
	"testing"
)

// TestCompare says of pairs of settings which promises less.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		family Family
		a, b   string
		less   string // "a", "b" or "": they promise the same, or it is not known
	}{
		{MySQL, "innodb_flush_log_at_trx_commit=0", "innodb_flush_log_at_trx_commit=2", "a"},
		{MySQL, "innodb_flush_log_at_trx_commit=1", "innodb_flush_log_at_trx_commit=2", "b"},
		{MySQL, "innodb_flush_log_at_trx_commit=1", "innodb_flush_log_at_trx_commit=3", ""},
		{MySQL, "innodb_flush_log_at_trx_commit=1", "innodb_flush_log_at_trx_commit=4", ""},
		{MySQL, "log_bin=ON sync_binlog=1", "log_bin=ON sync_binlog=0", "b"},
		{MySQL, "log_bin=ON sync_binlog=100", "log_bin=ON sync_binlog=0", "b"},
		{MySQL, "log_bin=ON sync_binlog=100", "log_bin=ON sync_binlog=1", "a"},
		{MySQL, "log_bin=OFF sync_binlog=0", "log_bin=OFF sync_binlog=1", ""},
		{MySQL, "log_bin=ON sync_binlog=-1", "log_bin=ON sync_binlog=1", ""},
		{MySQL, "innodb_flush_method=O_DIRECT", "innodb_flush_method=fsync", ""},
		{MySQL, "innodb_flush_method=default", "innodb_flush_method=O_DSYNC", ""},
		{MySQL, "innodb_flush_method=O_DIRECT_NO_FSYNC", "innodb_flush_method=O_DIRECT", "a"},
		{MySQL, "innodb_flush_method=fsync", "innodb_flush_method=littlesync", "b"},
		{MySQL, "innodb_doublewrite=OFF", "innodb_doublewrite=ON", "a"},
		{MySQL, "innodb_doublewrite=DETECT_AND_RECOVER", "innodb_doublewrite=1", ""},
		{PostgreSQL, "fsync=off", "fsync=on", "a"},
		{PostgreSQL, "full_page_writes=on", "full_page_writes=off", "b"},
		{PostgreSQL, "synchronous_commit=on", "synchronous_commit=off", "b"},
		{PostgreSQL, "synchronous_commit=on synchronous_standby_names=none",
			"synchronous_commit=local synchronous_standby_names=none", ""},
		{PostgreSQL, "synchronous_commit=on synchronous_standby_names=set",
			"synchronous_commit=on synchronous_standby_names=none", "b"},
		{PostgreSQL, "synchronous_commit=remote_write synchronous_standby_names=set",
			"synchronous_commit=remote_apply synchronous_standby_names=set", "a"},
		{PostgreSQL, "wal_sync_method=fdatasync", "wal_sync_method=open_sync", ""},
		{PostgreSQL, "wal_sync_method=fdatasync", "wal_sync_method=fsync_writethrough", "a"},
		{SQLite, "synchronous=FULL", "synchronous=NORMAL", "b"},
		{SQLite, "synchronous=0", "synchronous=OFF", ""},
		{SQLite, "journal_mode=wal", "journal_mode=off", "b"},
		{"oracle", "fsync=on", "fsync=off", ""},
	} {
		a, err := Parse(string(c.family) + " " + c.a)
		b, err2 := Parse(string(c.family) + " " + c.b)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for _, turn := range []bool{false, true} {
			x, y, less := a, b, c.less
			if turn {
				x, y, less = b, a, map[string]string{"a": "b", "b": "a"}[c.less]
			}
			got := ""
			if d := Compare(x, y); len(d) > 0 {
				got = map[int]string{-1: "a", 1: "b"}[d[0].Less]
				if d[0].A != x.Values[d[0].Name] || d[0].B != y.Values[d[0].Name] || d[0].Loses == "" {
					t.Errorf("%s against %s: %+v", c.a, c.b, d[0])
				}
			}
			if got != less {
				t.Errorf("%s against %s, turned %v: %q promises less, want %q", c.a, c.b, turn, got, less)
			}
		}
	}
}

func TestText(t *testing.T) {
	s := Settings{Family: MySQL}
	if s.Text() != "" {
		t.Errorf("no settings are %q", s.Text())
	}
	for _, row := range [][][]byte{{[]byte("sync_binlog"), []byte("1")}, {[]byte("Innodb_flush_method"), nil},
		{[]byte("odd"), []byte("a b")}, {[]byte("alone")}, nil} {
		if err := s.Row(row); err != nil {
			t.Error(err)
		}
	}
	if got := s.Text(); got != "mysql innodb_flush_method=default sync_binlog=1" {
		t.Error(got)
	}
	for _, bad := range []string{"mysql x", "mysql =1", "mysql a=", "mysql a=b=c", "mysql \x01=1",
		"mysql a=" + strings.Repeat("1", 65), "mysql " + strings.Repeat("a", 5000)} {
		if s, err := Parse(bad); err == nil {
			t.Errorf("%q is %v", bad, s)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("mysql innodb_doublewrite=ON innodb_flush_log_at_trx_commit=2 log_bin=OFF sync_binlog=0")
	f.Add("postgresql fsync=on synchronous_commit=off synchronous_standby_names=none")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if d := Compare(s, s); len(d) > 0 {
			t.Errorf("%q differs from itself: %v", text, d)
		}
		if again, err := Parse(s.Text()); len(s.Values) > 0 && (err != nil || again.Text() != s.Text()) {
			t.Errorf("%q is written as %q and read as %q: %v", text, s.Text(), again.Text(), err)
		}
	})
}
