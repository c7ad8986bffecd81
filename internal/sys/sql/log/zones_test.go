package log

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// zonesTried are zones with and without changes, by an hour and by half of one, in both halves of the world.
var zonesTried = []string{"UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Europe/Berlin"}

// writers write a log with one statement for each time, as a clock on a wall shows it with the name of its zone. Coarse
// is the precision of its times. Without a name, the zone has to be given.
var writers = []struct {
	name   string
	named  bool // the lines have the name of the zone, or its distance from UTC
	write  func(at time.Time) string
	coarse time.Duration
}{
	{"stderr", true, func(at time.Time) string {
		return at.Format("2006-01-02 15:04:05.000 MST") + " [7] anna@shop LOG:  statement: SELECT 1\n"
	}, time.Millisecond},
	{"stderr with seconds", true, func(at time.Time) string {
		return at.Format("2006-01-02 15:04:05 MST") + " [7]: [1-1] user=anna,db=shop LOG:  statement: SELECT 1\n"
	}, time.Second},
	{"csvlog", true, func(at time.Time) string {
		return at.Format("2006-01-02 15:04:05.000 MST") + `,"anna","shop",7,"[local]",69c7a1f0.7,1,"idle",` +
			`2026-01-01 00:00:00 UTC,3/2,0,LOG,00000,"statement: SELECT 1",,,,,,,,,"psql","client backend",,0` + "\n"
	}, time.Millisecond},
	{"jsonlog", true, func(at time.Time) string {
		return `{"timestamp":"` + at.Format("2006-01-02 15:04:05.000 MST") + `","user":"anna","dbname":"shop",` +
			`"pid":7,"session_id":"69c7a1f0.7","error_severity":"LOG","message":"statement: SELECT 1"}` + "\n"
	}, time.Millisecond},
	{"syslog", true, func(at time.Time) string {
		return at.Format("2006-01-02T15:04:05.000000-07:00") + " h postgres[7]: [1-1] db=shop,user=anna LOG:  " +
			"statement: SELECT 1\n"
	}, time.Microsecond},
	{"syslog, the time of the prefix", true, func(at time.Time) string {
		return at.Format("2006-01-02T15:04:05") + " h postgres[7]: [1-1] " +
			at.Format("2006-01-02 15:04:05.000 MST") + " db=shop,user=anna LOG:  statement: SELECT 1\n"
	}, time.Millisecond},
	{"syslog without a zone", false, func(at time.Time) string {
		return at.Format("2006-01-02T15:04:05") + " h postgres[7]: [1-1] db=shop,user=anna LOG:  statement: SELECT 1\n"
	}, time.Second},
	{"general log", true, func(at time.Time) string {
		return at.Format("2006-01-02T15:04:05.000000-07:00") + "\t    7 Query\tSELECT 1\n"
	}, time.Microsecond},
	{"general log of MariaDB", false, func(at time.Time) string {
		return at.Format("060102 15:04:05") + "\t     7 Query\tSELECT 1\n"
	}, time.Second},
	{"slow log", true, func(at time.Time) string {
		return "# Time: " + at.Format("2006-01-02T15:04:05.000000-07:00") + "\n# User@Host: a[a] @ localhost []" +
			"  Id: 7\n# Query_time: 0.000000  Lock_time: 0.000000 Rows_sent: 1  Rows_examined: 1\n" +
			fmt.Sprintf("SET timestamp=%d;\nSELECT 1;\n", at.Unix())
	}, time.Microsecond},
	{"slow log of MariaDB", true, func(at time.Time) string { // SET timestamp is in UTC
		return "# Time: " + at.Format("060102 15:04:05") + "\n# User@Host: a[a] @ localhost []\n" +
			"# Thread_id: 7  Schema:   QC_hit: No\n# Query_time: 0.000652  Lock_time: 0.000000  Rows_sent: 1\n" +
			fmt.Sprintf("SET timestamp=%d;\nSELECT 1;\n", at.Unix())
	}, time.Second},
	{"audit log of MariaDB", false, func(at time.Time) string {
		return at.Format("20060102 15:04:05") + ",h,anna,localhost,7,1,QUERY,shop,'SELECT 1',0\n"
	}, time.Second},
}

// Around each change of a year, in steps of 10 minutes and in gaps of nearly an hour, times are what they were.
func TestZones(t *testing.T) {
	for _, name := range zonesTried {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range writers {
			for _, given := range []bool{true, false} {
				if !given && (!w.named || name == "Asia/Kolkata") { // IST is Israel's, too
					continue
				}
				for _, step := range []time.Duration{10*time.Minute + time.Second, 55 * time.Minute, 65 * time.Minute} {
					o := Options{}
					if given {
						o.Zone = zone
					}
					for _, change := range changes(zone) {
						what := fmt.Sprintf("%s in %s, given %v, every %v around %v", w.name, name, given, step, change)
						if w.named || step < 20*time.Minute { // else nothing tells which of two it is
							checkTimes(t, what, o, w.write, w.coarse, change.In(zone), step)
						}
					}
				}
			}
		}
	}
}

// changes are when the clocks of a zone change in 2026, or some other time if they do not.
func changes(zone *time.Location) (all []time.Time) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, before := at.In(zone).Zone()
	for ; at.Year() == 2026; at = at.Add(30 * time.Minute) {
		if _, now := at.In(zone).Zone(); now != before {
			all, before = append(all, at), now
		}
	}
	if all == nil {
		all = []time.Time{time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)}
	}
	return all
}

func checkTimes(t *testing.T, what string, o Options, write func(time.Time) string, coarse time.Duration,
	change time.Time, step time.Duration) {
	t.Helper()
	var log strings.Builder
	var want []time.Time
	for at := change.Add(-6 * step); len(want) < 12; at = at.Add(step + 123456*time.Microsecond) {
		log.WriteString(write(at))
		want = append(want, at.Truncate(coarse))
	}
	r, err := Open(strings.NewReader(log.String()), o)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	var e Event
	for i, w := range want {
		if err := r.Next(&e); err != nil || e.Time != w.UnixMicro() {
			t.Errorf("%s: statement %d is at %v, want %v (%v)\n%s", what, i, time.UnixMicro(e.Time).UTC(), w.UTC(), err,
				log.String())
			return
		}
	}
	if r.clock.setBack > 0 {
		t.Errorf("%s: a clock was set back", what)
	}
}

// A name that says more than one zone is told of, and one that the zone given does not have.
func TestZoneNotes(t *testing.T) {
	line := func(name string) string {
		return "2026-06-25 01:00:00.000 " + name + " [7] anna@shop LOG:  statement: SELECT 1\n"
	}
	for _, c := range []struct {
		name string
		zone string
		at   string
		note string
	}{
		{"IST", "", "2026-06-25T01:00:00Z", "give --zone"}, {"CST", "", "2026-06-25T01:00:00Z", "give --zone"},
		{"XYZ", "", "2026-06-25T01:00:00Z", "give --zone"}, {"CEST", "", "2026-06-24T23:00:00Z", ""},
		{"PDT", "", "2026-06-25T08:00:00Z", ""}, {"EDT", "", "2026-06-25T05:00:00Z", ""},
		{"UTC", "", "2026-06-25T01:00:00Z", ""}, {"IST", "Asia/Kolkata", "2026-06-24T19:30:00Z", ""},
		{"CEST", "America/New_York", "2026-06-24T23:00:00Z", "does not have"},
		{"+1030", "", "2026-06-24T14:30:00Z", ""}, {"-03", "", "2026-06-25T04:00:00Z", ""},
	} {
		o := Options{}
		if c.zone != "" {
			o.Zone, _ = time.LoadLocation(c.zone)
		}
		r, err := Open(strings.NewReader(strings.Repeat(line(c.name), 3)), o)
		if err != nil {
			t.Fatal(err)
		}
		var e Event
		for range 3 {
			if err := r.Next(&e); err != nil || rfc3339(e.Time) != c.at {
				t.Errorf("%s in %q is %s, want %s (%v)", c.name, c.zone, rfc3339(e.Time), c.at, err)
			}
		}
		if got := strings.Join(r.Notes(), "|"); !strings.Contains(got, c.note) || (c.note == "") != (got == "") {
			t.Errorf("%s in %q: notes %q, want %q", c.name, c.zone, got, c.note)
		}
	}
}

// The slow log of MariaDB: # Time is that of the wall, SET timestamp is UTC, whichever comes first.
func TestSlowLogOfALocalClock(t *testing.T) {
	facts := func(id int) string {
		return "# User@Host: shop[shop] @ localhost [192.0.2.1]\n" +
			fmt.Sprintf("# Thread_id: %d  Schema:   QC_hit: No\n", id) +
			"# Query_time: 1000.000652  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 0\n"
	}
	quick := strings.ReplaceAll(facts(5), "1000.", "0.")
	for _, c := range []struct{ name, log, want string }{
		{"SET timestamp first", quick + "SET timestamp=1781359476;\nselect 1;\n# Time: 260613 11:04:37\n" + quick +
			"SET timestamp=1781359477;\nselect 2;\n", "2026-06-13T14:04:36Z 2026-06-13T14:04:37Z"},
		{"# Time first", "# Time: 260613 11:04:37\n" + quick + "SET timestamp=1781359477;\nselect 2;\n" + quick +
			"SET timestamp=1781359477;\nselect 3;\n", "2026-06-13T14:04:37Z 2026-06-13T14:04:37Z"},
		{"a long one", "# Time: 260613 11:21:17\n" + facts(5) + "SET timestamp=1781359477;\nselect 2;\n",
			"2026-06-13T14:04:36.999348Z"},
		{"half hours", "# Time: 260613 19:34:37\n" + quick + "SET timestamp=1781359477;\nselect 2;\n",
			"2026-06-13T14:04:37Z"},
		{"a timestamp of the session's own", "# Time: 260613 11:04:37\n" + quick +
			"SET timestamp=1781359477;\nselect 2;\n" +
			"# Time: 260613 11:04:38\n" + quick + "SET timestamp=1;\nselect 2;\n",
			"2026-06-13T14:04:37Z 2026-06-13T14:04:37.999348Z"},
	} {
		r, err := Open(strings.NewReader(c.log), Options{})
		if err != nil {
			t.Fatal(err)
		}
		var e Event
		var got []string
		for r.Next(&e) == nil {
			got = append(got, rfc3339(e.Time))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}
