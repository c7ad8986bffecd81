package capture

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"tare/internal/sys/sql/log"
)

// text is a log in memory.
func text(s string) source {
	size := int64(len(s))
	return source{{ReaderAt: strings.NewReader(s), Closer: io.NopCloser(nil),
		size: func(context.Context) (int64, error) { return size, nil }}}
}

// times returns the second in which each statement was asked.
func times(t *testing.T, s string, f log.Format) map[string]int64 {
	t.Helper()
	r, err := log.Open(strings.NewReader(s), log.Options{Format: f})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for e := (log.Event{}); ; {
		if err := r.Next(&e); err == io.EOF {
			if lost := r.Account().Bytes.Lost; lost > 0 {
				t.Errorf("%d bytes are lost of\n%s", lost, s)
			}
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if e.Op.Statement() {
			all[string(e.Text)] = e.Time / 1e6
		}
	}
}

func TestSampleOfNothing(t *testing.T) {
	for _, f := range []log.Format{log.General, log.Slow, log.PgCSV} {
		var to strings.Builder
		if err := sample(t.Context(), &to, text(""), f, 0.5, &Result{}); err != nil || to.Len() > 0 {
			t.Errorf("%s: %q, %v", f, to.String(), err)
		}
	}
}

// The records that are kept have the times that they had, also where only a record that is left out tells it.
func TestSampleKeepsTimes(t *testing.T) {
	general := "mariadbd, Version: 10.11. started with:\nTcp port: 0  Unix socket: x\n" +
		"Time\t\t    Id Command\tArgument\n"
	slow := ""
	for i := range 200 {
		id, stamp, fact := i%7, "\t", ""
		if i%3 == 0 {
			stamp = fmt.Sprintf("261121  0:05:%02d", i/4)
			fact = fmt.Sprintf("# Time: %s\n", stamp)
		}
		general += fmt.Sprintf("%s\t%6d Query\tSELECT %d,\n%d\n", stamp, id, i, id)
		if i%5 == 0 {
			general += fmt.Sprintf("\t\t%6d Field List\tt\n", id)
		}
		slow += fmt.Sprintf("%s# User@Host: a[a] @ b []\n# Thread_id: %d  Schema: d  QC_hit: No\n"+
			"# Query_time: 0.000000  Lock_time: 0\nSELECT %d,\n%d;\n", fact, id, i, id)
	}
	for f, all := range map[log.Format]string{log.General: general, log.Slow: slow} {
		want := times(t, all, f)
		for range 20 {
			var to strings.Builder
			r := Result{Bytes: int64(len(all))}
			if err := sample(t.Context(), &to, text(all), f, 0.4, &r); err != nil {
				t.Fatal(err)
			}
			got, sessions := times(t, to.String(), f), map[string]int{}
			for text, at := range got {
				if want[text] != at {
					t.Errorf("%s: %q was at %d and is at %d", f, text, want[text], at)
				}
				sessions[text[strings.Index(text, "\n"):]]++
			}
			for id, n := range sessions {
				if n < 200/7 {
					t.Errorf("%s: session %s has %d statements", f, id, n)
				}
			}
			if r.Sessions != 7 || int(r.Kept) != len(sessions) {
				t.Errorf("%s: %d of %d sessions, and %d are there", f, r.Kept, r.Sessions, len(sessions))
			}
			for line := range strings.Lines(to.String()) {
				if id, _, ok := strings.Cut(line, " Field List"); ok && sessions["\n"+strings.TrimSpace(id)] == 0 {
					t.Errorf("%q is of a session that was left out", line)
				}
			}
		}
	}
}
