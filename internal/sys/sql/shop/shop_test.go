package shop

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"

	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/trace"
)

var dialects = []lex.Dialect{lex.MySQL, lex.PostgreSQL}

// All statements only read, and their results can be compared between servers.
func TestSessionsOnlyRead(t *testing.T) {
	for _, d := range dialects {
		texts := map[string]bool{}
		err := Shop{Dialect: d, Views: 300}.Sessions(func(_ uint64, e *trace.Event) error {
			if len(e.Text) == 0 {
				return nil
			}
			v := lex.Classify(e.Text, lex.Options{Dialect: d})
			if !v.Class.ReadOnly() || v.Volatile != "" {
				t.Errorf("%s: %v, %s%s", e.Text, v.Class, v.Reason, v.Volatile)
			}
			texts[string(lex.Fingerprint(nil, e.Text, lex.Options{Dialect: d}))] = true
			return nil
		})
		if err != nil || len(texts) != 14 {
			t.Errorf("%d kinds of statements, want 14: %v", len(texts), err)
		}
	}
}

// Sessions begin and end, their times increase, and they execute only what they have prepared.
func TestSessionsAreWhole(t *testing.T) {
	for _, d := range dialects {
		open, prepared, last, number := uint64(0), map[uint32]bool{}, int64(0), uint64(0)
		s := Shop{Dialect: d, Views: 200}
		err := s.Sessions(func(session uint64, e *trace.Event) error {
			switch {
			case (e.Op == trace.Connect) != (open == 0), open != 0 && session != open:
				t.Errorf("session %d does %d within session %d", session, e.Op, open)
			case e.Op != trace.Connect && e.At <= last:
				t.Errorf("session %d goes back in time", session)
			case e.Op == trace.Execute && (!prepared[e.Statement] || len(e.Params) != 1):
				t.Errorf("%+v was not prepared", e)
			case e.Op.Statement() && e.Number != number:
				t.Errorf("statement %d has number %d", number, e.Number)
			}
			open, last = session, e.At
			if e.Op.Statement() {
				number++
			}
			switch e.Op {
			case trace.Prepare:
				prepared[e.Statement] = true
			case trace.CloseStmt:
				delete(prepared, e.Statement)
			case trace.Quit:
				open = 0
			}
			return nil
		})
		if err != nil || open != 0 || len(prepared) > 0 {
			t.Errorf("session %d is left open: %v", open, err)
		}
	}
}

// The dump consists of complete statements, is deterministic, and grows with the number of items.
func TestDump(t *testing.T) {
	for _, d := range dialects {
		small, again, large := dumped(t, Shop{Dialect: d, Items: 100}), dumped(t, Shop{Dialect: d, Items: 100}),
			dumped(t, Shop{Dialect: d, Items: 1000})
		if sha256.Sum256(small) != sha256.Sum256(again) || len(large) < 8*len(small) {
			t.Errorf("%d bytes, %d bytes, of ten times as many items %d", len(small), len(again), len(large))
		}
		n := 0
		for b := large; ; n++ {
			span, end, whole := lex.Next(b, lex.Options{Dialect: d})
			if !whole {
				if len(bytes.TrimSpace(b)) > 0 {
					t.Errorf("%q is left", b)
				}
				break
			}
			if text := string(b[span.Start:span.End]); len(text) > 2*longest || strings.Contains(text, "\\") {
				t.Errorf("a statement of %d bytes: %.100s", len(text), text)
			}
			b = b[end:]
		}
		if n < 40 {
			t.Errorf("%d statements", n)
		}
	}
}

func dumped(t *testing.T, s Shop) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Dump(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var errEnough = errors.New("enough")

// An error of the consumer ends the generation.
func TestErrorsEndIt(t *testing.T) {
	n := 0
	err := Shop{}.Sessions(func(uint64, *trace.Event) error {
		n++
		return errEnough
	})
	if err != errEnough || n != 1 {
		t.Errorf("%v after %d events", err, n)
	}
	r, w := io.Pipe()
	r.CloseWithError(errEnough)
	if err := (Shop{}).Dump(w); !errors.Is(err, errEnough) {
		t.Errorf("%v", err)
	}
}
