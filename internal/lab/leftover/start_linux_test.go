package leftover

import "testing"

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (a) b) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 77 0\n"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		if s, err := parseStat(stat); err == nil && s == "" {
			t.Fatal("neither a start time nor an error")
		}
	})
}

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("1 (a) b) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 77 0\n"))
	if err != nil || got != "77" {
		t.Errorf("%q, %v", got, err)
	}
}
