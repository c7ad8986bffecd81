package log

import (
	"strings"
	"testing"
)

const followed = "261121  0:05:31\t    8 Connect\tu@localhost on d\n\t\t    8 Query\tSELECT 1\n" +
	"\t\t    8 Prepare\tSELECT ?\n\t\t    8 Execute\tSELECT 2\n\t\t    9 Query\tUPDATE a SET b = 1\n"

// FuzzRestore takes up what may have been damaged, and goes on with it.
func FuzzRestore(f *testing.F) {
	sum := func(text string) *Summing {
		r, err := Open(strings.NewReader(text), Options{Format: General})
		if err != nil {
			f.Fatal(err)
		}
		return Sum(r, Policy{})
	}
	s := sum(followed)
	var e Event
	for s.Next(&e) == nil {
	}
	saved, err := s.Save()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(saved)
	f.Add([]byte(`{"schema":"tare-sql-inspect/1","Summary":{},"Width":1,"Names":{"a":null}}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		if s := sum(followed); s.Restore(text) == nil {
			for s.Next(&e) == nil {
			}
			_ = s.Summary()
		}
		_, _ = OptionsOf(text, Options{})
	})
}

func TestSaveRefuses(t *testing.T) {
	for name, text := range map[string]string{"plain": "SELECT 1;\n",
		"JSON": `{"log":"2020-03-11 20:40:43 UTC [5] LOG:  statement: SELECT 1\\n","stream":"stderr"}` + "\n"} {
		r, err := Open(strings.NewReader(text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Sum(r, Policy{}).Save(); err == nil {
			t.Errorf("%s is saved", name)
		}
	}
}
