package sql

import "testing"

// An option of the server forbids a statement: only of read-only servers is all that follows refused, too.
func TestOptionEndsReplay(t *testing.T) {
	for option, want := range map[string]bool{"--read-only": true, "--super-read-only": true, "--read_only": true,
		"--secure-file-priv": false, "--skip-grant-tables": false} {
		r := &refusal{"1290", "The MySQL server is running with the " + option + " option so it cannot execute this " +
			"statement"}
		if r.ends(nil, true) != want || r.ends(nil, false) {
			t.Errorf("%s: with writes %t, without %t", option, r.ends(nil, true), r.ends(nil, false))
		}
	}
}
