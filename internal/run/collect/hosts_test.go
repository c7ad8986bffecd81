package collect

import (
	"strings"
	"testing"
)

func TestParseHosts(t *testing.T) {
	got, err := ParseHosts([]byte("n1 # the first\n\n# none\r\n user@n2:22 \nN3"))
	if err != nil || strings.Join(got, ",") != "n1,user@n2:22,N3" {
		t.Errorf("%q, %v", got, err)
	}
	for src, want := range map[string]string{
		"":                               "names no host",
		"# nothing":                      "names no host",
		"n1\nN1":                         "line 2: host \"N1\" was named in line 1 already",
		"a b":                            "line 1",
		strings.Repeat("x", 300):         "line 1",
		strings.Repeat("x", 9<<20):       "too long",
		"\x00":                           "line 1",
		strings.Repeat("n\n", 1) + "n\n": "already",
	} {
		if got, err := ParseHosts([]byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q gives %q, %v; want an error with %q", src, got, err, want)
		}
	}
}

func FuzzParseHosts(f *testing.F) {
	f.Add([]byte("n1\nn2 # x\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		hosts, err := ParseHosts(src)
		if err != nil {
			return
		}
		for _, h := range hosts {
			if h == "" || len(h) > LongestHost || strings.ContainsAny(h, " \t\n\r#") {
				t.Errorf("%q is no name", h)
			}
		}
	})
}
