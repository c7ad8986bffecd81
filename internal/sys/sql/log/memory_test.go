package log

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// endlessLog is a log without an end, made of a record that is written with another id each time.
type endlessLog struct {
	record func(i int) string
	left   int64
	i      int
	rest   string
}

func (l *endlessLog) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) && l.left > 0 {
		if l.rest == "" {
			l.rest = l.record(l.i)
			l.i++
		}
		k := copy(p[n:], l.rest)
		l.rest = l.rest[k:]
		n += k
		l.left -= int64(k)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Memory does not grow with the log, whatever it has many of: records, sessions that never end, prepared statements,
// kinds of statements, messages that are not whole.
func TestMemoryIsConstant(t *testing.T) {
	size := int64(24 << 20) // some 300,000 records
	if testing.Short() {
		size = 5 << 20
	}
	for name, record := range map[string]func(i int) string{
		"sessions": func(i int) string { return q(i, "SELECT 1") },
		"prepared": func(i int) string { return of(i%5000, "Prepare", fmt.Sprintf("SELECT %d, ?", i)) },
		"kinds":    func(i int) string { return q(1, fmt.Sprintf("SELECT a%d FROM b%d", i, i)) },
		"syslog": func(i int) string {
			return fmt.Sprintf("Feb 11 13:15:39 h postgres[%d]: [7-1] LOG:  statement: SELECT 1\n", i)
		},
		"json": func(i int) string {
			return fmt.Sprintf(`{"textPayload":"2020-03-11 20:40:43 UTC [%d] LOG:  statement: SELECT 1"}`+"\n", i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Open(&endlessLog{record: record, left: size}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			p := &memoryPeak{}
			s, err := summarize(r, Policy{}, p.look)
			if err != nil || s.Account.Bytes.Total != size {
				t.Fatalf("%v: %+v", err, s.Account)
			}
			if p.bytes > 48<<20 {
				t.Errorf("%d MiB of memory for a log of %d MiB", p.bytes>>20, size>>20)
			}
		})
	}
}

// memoryPeak is the most memory that was in use.
type memoryPeak struct {
	bytes uint64
	n     int
}

func (p *memoryPeak) look() {
	if p.n++; p.n%50_000 == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.bytes = max(p.bytes, m.HeapInuse)
	}
}

func TestNothingIsAllocatedForARecord(t *testing.T) {
	for name, record := range map[string]func(i int) string{
		"general": func(i int) string {
			return "261121  0:05:31\t" + q(i%50, "SELECT /* a */ 'x', a\nFROM b WHERE c = 5")[2:]
		},
		"executions": func(i int) string {
			if i < 50 {
				return of(i%50, "Prepare", "SELECT ? FROM b WHERE c = ?")
			}
			return of(i%50, "Execute", "SELECT 'x' FROM b WHERE c = 5")
		},
		"connections": func(i int) string {
			return of(i, "Connect", "a@b on c") + q(i, "SELECT 1") + of(i, "Quit", "")
		},
		"slow": func(i int) string {
			return fmt.Sprintf("# User@Host: root[root] @ localhost []  Id: %d\n# Query_time: 0.5  Rows_sent: 5\n"+
				"SET timestamp=1469038405;\nSELECT 1;\n", i%50)
		},
		"stderr": func(i int) string {
			return fmt.Sprintf("2020-03-11 20:40:43.250 UTC [%d] u@d LOG:  execute x: SELECT $1\n"+
				"2020-03-11 20:40:43.250 UTC [%d] u@d DETAIL:  parameters: $1 = 'it''s'\n", i%50, i%50)
		},
		"csvlog": func(i int) string {
			return fmt.Sprintf(`2020-03-11 20:40:43.250 UTC,"u","d",1486,"127.0.0.1:52306",6009c305.%x,3,"SELECT",`+
				`2021-01-21 19:08:05 UTC,14/1,77,LOG,00000,"duration: 250.5 ms  statement: x",,,,,,,,,"app"`+"\n", i%50)
		},
		"jsonlog": func(i int) string {
			return fmt.Sprintf(`{"timestamp":"2023-01-01 10:00:00.123 UTC","user":"u","dbname":"d","pid":%d,`+
				`"error_severity":"LOG","message":"statement: SELECT \"1\""}`+"\n", i%50)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			for i := range 20_000 {
				log.WriteString(record(i))
			}
			r, err := Open(strings.NewReader(log.String()), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var e Event
			for range 1000 {
				if err := r.Next(&e); err != nil {
					t.Fatal(err)
				}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			n := uint64(0)
			for ; r.Next(&e) == nil; n++ {
				r.Settle(Replayed, "")
			}
			runtime.ReadMemStats(&after)
			// A buffer grows now and then; a record that allocates does so each time.
			if allocs := after.Mallocs - before.Mallocs; n < 18_000 || allocs > n/50 {
				t.Errorf("%d allocations for %d records", allocs, n)
			}
		})
	}
}

// A statement of 40 MB is a statement.
func TestHugeStatement(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: 40 MB")
	}
	fake := "\t\t     9 Query\tDROP TABLE x\n"
	huge := "SELECT '" + strings.Repeat(fake, 5) + strings.Repeat("it''s\ndata\\'\n", 3<<20) + "'"
	log := q(8, "SELECT 1") + q(8, huge) + q(8, "SELECT 2")
	r, err := Open(strings.NewReader(log), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var e Event
	for i, want := range []int{len("SELECT 1"), len(huge), len("SELECT 2")} {
		if err := r.Next(&e); err != nil || len(e.Text) != want || e.Ambiguous != "" {
			t.Fatalf("event %d has %d bytes, want %d (%v, %q)", i, len(e.Text), want, err, e.Ambiguous)
		}
		r.Settle(Replayed, "")
	}
	if err := r.Next(&e); err != io.EOF {
		t.Errorf("%v after the last", err)
	}
	checkAccount(t, r, int64(len(log)))
}
