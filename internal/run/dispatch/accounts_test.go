package dispatch

import "testing"

func TestParseAccounts(t *testing.T) {
	got := parseAccounts([]byte("12|COMPLETED\n13|CANCELLED by 1000\n14|TIMEOUT\nnoise\n15|\n16|RUNNING\n" +
		"17|OUT_OF_ME+\n"))
	if len(got) != 5 {
		t.Fatalf("%v", got)
	}
	for id, want := range map[string]PartStatus{"12": {Phase: Ended, Detail: "COMPLETED"},
		"13": {Phase: Ended, Detail: "its job was cancelled", Final: true}, "14": {Phase: Ended, Detail: "TIMEOUT"},
		"16": {Phase: Working}} {
		j := got[id]
		s := j.seen("")
		want.Job = id
		if s != want {
			t.Errorf("job %s: %+v, want %+v", id, s, want)
		}
	}
}

func FuzzParseAccounts(f *testing.F) {
	f.Add([]byte("12|COMPLETED\n13|CANCELLED by 1000\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		for id, j := range parseAccounts(out) {
			if s := j.seen(""); id == "" || s.Phase == "" {
				t.Errorf("%q: %+v", id, s)
			}
		}
	})
}
