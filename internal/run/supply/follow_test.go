package supply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/sql/log"
)

// growing makes logs of sessions that overlap: a record for each call.
func growing(r *rand.Rand) map[string]func() string {
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	texts := []string{"SELECT a FROM b WHERE c = %d", "SELECT '\n\tthe end' , %d", "UPDATE b SET a = %d", "SET @a = %d",
		"SELECT NOW(), %d", "SELECT /* page %[1]d */ a FROM d", "INSERT INTO b VALUES (%d)"}
	text := func() string {
		at = at.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
		return fmt.Sprintf(texts[r.IntN(len(texts))], r.IntN(1000))
	}
	prepared := map[int]bool{}
	return map[string]func() string{
		"general": func() string {
			t, id := text(), 1+r.IntN(9)
			head := fmt.Sprintf("%s\t%5d ", at.Format("2006-01-02T15:04:05.000000Z"), id)
			switch k := r.IntN(12); {
			case k == 0:
				delete(prepared, id)
				return head + "Quit\t\n"
			case k == 1:
				delete(prepared, id)
				return head + "Connect\tu@localhost on shop using Socket\n"
			case k == 2:
				prepared[id] = true
				return head + "Prepare\tSELECT ? FROM prepared\n"
			case k < 5 && prepared[id]:
				return head + fmt.Sprintf("Execute\tSELECT %d FROM prepared\n", r.IntN(100))
			default:
				return head + "Query\t" + t + "\n"
			}
		},
		"slow": func() string {
			use := ""
			if r.IntN(5) == 0 {
				use = fmt.Sprintf("use d%d;\n", r.IntN(3))
			}
			t := text()
			return fmt.Sprintf("# Time: %s\n# User@Host: u[u] @ localhost []  Id: %d\n"+
				"# Query_time: 0.0%d  Rows_sent: 1\n%sSET timestamp=%d;\n%s;\n",
				at.Format("2006-01-02T15:04:05.000000Z"), r.IntN(5), 1+r.IntN(9), use, at.Unix(), t)
		},
		"pg-stderr": func() string {
			t := strings.ReplaceAll(text(), "\n", "\n\t")
			return fmt.Sprintf("%s [%d] u@d LOG:  statement: %s\n", at.Format("2006-01-02 15:04:05.000 UTC"), r.IntN(5),
				t)
		},
		"pg-csv": func() string {
			t := text()
			return fmt.Sprintf("%s,\"u\",\"d\",%d,\"[local]\",6009c305.%x,3,\"SELECT\",2021-01-21 19:08:05 UTC,"+
				"3/7,0,LOG,00000,\"statement: %s\",,,,,,,,,\"app\"\n",
				at.Format("2006-01-02 15:04:05.000 UTC"), r.IntN(5), r.IntN(5), t)
		},
	}
}

// followedLog is a log being followed by a goroutine of its own.
type followedLog struct {
	*Follower
	sum  *log.Summing
	do   chan func() // on that goroutine, when the log has no more
	stop context.CancelFunc
	done chan error
	told []string
}

func follow(t *testing.T, path string, from *Checkpoint, o log.Options) *followedLog {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	x := &followedLog{do: make(chan func()), stop: stop, done: make(chan error, 1)}
	var err error
	x.Follower, err = Follow(ctx, path, from, func(text string) { x.told = append(x.told, text) })
	if err != nil {
		t.Fatal(err)
	}
	x.poll = time.Millisecond
	x.Idle = func(bool) {
		select {
		case f := <-x.do:
			f()
		default:
		}
	}
	if from != nil {
		o, err = log.OptionsOf(from.Summary, o)
	}
	if o.Sample = -1; err != nil {
		t.Fatal(err)
	}
	r, err := log.Open(x.Source(), o)
	if err == nil {
		x.sum = log.Sum(r, log.Policy{})
		if from != nil {
			err = x.sum.Restore(from.Summary)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		var e log.Event
		var err error
		for err == nil {
			err = x.sum.Next(&e)
		}
		x.done <- err
	}()
	return x
}

// idle waits until all was read that there was, and calls f.
func (x *followedLog) idle(t *testing.T, f func()) {
	t.Helper()
	for _, f := range []func(){func() {}, f} {
		called := make(chan struct{})
		select {
		case x.do <- func() { f(); close(called) }:
			<-called
		case err := <-x.done:
			t.Fatal(err)
		}
	}
}

// until waits until so many bytes of the log have been read.
func (x *followedLog) until(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		read := int64(0)
		x.idle(t, func() {
			if read = x.total; x.now != nil {
				read += x.now.size - x.now.begin
			}
		})
		if read == int64(n) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d bytes are read, told %q", read, n, x.told)
		}
	}
}

// end ends the log.
func (x *followedLog) end(t *testing.T) {
	t.Helper()
	x.stop()
	if err := <-x.done; err != io.EOF {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFollow writes logs in pieces, rotates them in both ways, and kills who follows them in between. In the end there
// is what is in the log as a whole, and nothing twice.
func TestFollow(t *testing.T) {
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 1))
		for name, record := range growing(r) {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "the.log")
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				o := log.Options{Format: log.Format(name)}
				if name == "pg-stderr" {
					o.Prefix = "%m [%p] %q%u@%d "
				}
				x := follow(t, path, nil, o)
				whole, rotated, anew := "", 0, 0
				for range 30 {
					var text strings.Builder
					for range r.IntN(20) {
						text.WriteString(record())
					}
					whole += text.String()
					for _, piece := range []string{text.String()[:text.Len()/2], text.String()[text.Len()/2:]} {
						add(t, path, piece)
						if r.IntN(3) == 0 {
							x.idle(t, func() {})
						}
						if r.IntN(4) == 0 {
							x = killed(t, x, path, o)
							anew++
						}
					}
					switch r.IntN(6) {
					case 0: // by renaming; the server goes on with the old file for a moment
						rotated++
						old := fmt.Sprintf("%s.%d", path, rotated)
						if err := os.Rename(path, old); err != nil {
							t.Fatal(err)
						}
						late := record()
						whole += late
						add(t, old, late)
						add(t, path, "")
						first := record()
						whole += first
						add(t, path, first)
						x.until(t, len(whole))
					case 1: // by copying and truncating
						x.until(t, len(whole))
						if err := os.Truncate(path, 0); err != nil {
							t.Fatal(err)
						}
						x.idle(t, func() {})
					}
				}
				x.until(t, len(whole))
				x.end(t)
				checkFollowed(t, x.sum, whole, o)
				if rotated < 1 || anew < 3 || len(x.told) == 0 {
					t.Errorf("rotated %d times, killed %d times, told %q", rotated, anew, x.told)
				}
			})
		}
	}
}

// add appends to a file.
func add(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// killed goes on from a checkpoint, which was made at some time before the end.
func killed(t *testing.T, x *followedLog, path string, o log.Options) *followedLog {
	t.Helper()
	name := filepath.Join(t.TempDir(), "checkpoint")
	x.idle(t, func() {
		c, err := x.Checkpoint(x.sum)
		if err == nil {
			err = c.Write(name)
		}
		if err != nil {
			t.Error(err)
		}
	})
	told := x.told
	x.end(t)
	c, err := ReadCheckpoint(name, path)
	if err != nil {
		t.Fatal(err)
	}
	again := follow(t, path, c, o)
	again.told = append(told, again.told...)
	return again
}

func checkFollowed(t *testing.T, got *log.Summing, whole string, o log.Options) {
	t.Helper()
	r, err := log.Open(strings.NewReader(whole), o)
	if err != nil {
		t.Fatal(err)
	}
	want, err := log.Summarize(r, log.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := json.MarshalIndent(got.Summary(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(want, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
		for i := range min(len(x), len(y)) {
			if x[i] != y[i] {
				t.Fatalf("line %d: %s, want %s; %+v, want %+v", i, strings.Join(x[max(0, i-9):i+1], "\n"), y[i],
					got.Summary().Account, want.Account)
			}
		}
		t.Fatalf("%d lines, want %d", len(x), len(y))
	}
}

// TestFollowAfterRotation: what was followed was renamed, and others came after it, while nobody looked; or it is gone.
func TestFollowAfterRotation(t *testing.T) {
	record := growing(rand.New(rand.NewPCG(1, 1)))["general"]
	path := filepath.Join(t.TempDir(), "the.log")
	whole := ""
	more := func(path string) {
		for range 50 {
			text := record()
			whole += text
			add(t, path, text)
		}
	}
	more(path)
	o := log.Options{Format: log.General}
	x := follow(t, path, nil, o)
	var c *Checkpoint
	x.idle(t, func() {
		var err error
		if c, err = x.Checkpoint(x.sum); err != nil {
			t.Error(err)
		}
	})
	x.end(t)
	more(path)
	for i, name := range []string{path + ".2", path + ".1"} {
		if err := os.Rename(path, name); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
		more(path)
	}
	x = follow(t, path, c, o)
	x.until(t, len(whole))
	x.end(t)
	checkFollowed(t, x.sum, whole, o)
	for _, name := range []string{path + ".1", path + ".2"} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	x = follow(t, path, c, o)
	x.idle(t, func() {})
	x.end(t)
	if len(x.told) != 1 || !strings.Contains(x.told[0], "may be missing") {
		t.Errorf("%q", x.told)
	}
}

func TestBadCheckpoints(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "text": "SELECT 1", "other": `{"schema":"x"}`,
		"of another": `{"schema":"tare-sql-checkpoint/1","path":"/x"}`} {
		c, err := ReadCheckpoint(file(t, "checkpoint", text), "/the.log")
		if err == nil || !strings.Contains(err.Error(), "remove it to begin anew") {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if c, err := ReadCheckpoint(filepath.Join(t.TempDir(), "none"), "/the.log"); c != nil || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Follow(t.Context(), t.TempDir(), nil, nil); err == nil {
		t.Error("a folder is followed")
	}
}
