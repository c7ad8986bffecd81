package shell

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		"":                        nil,
		"  \t\n":                  nil,
		"ssh -p 22 host":          {"ssh", "-p", "22", "host"},
		`a 'b c' "d e" f\ g`:      {"a", "b c", "d e", "f g"},
		`''  ""`:                  {"", ""},
		`a'b'"c"d`:                {"abcd"},
		`"\$\a\"\\" '\'`:          {`$\a"\`, `\`},
		"a\\\nb \"c\\\nd\"":       {"ab", "cd"},
		`echo $HOME * ~ >x | y;z`: {"echo", "$HOME", "*", "~", ">x", "|", "y;z"},
	} {
		if got, err := Split(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("Split(%q) = %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{`'`, `"`, `a\`, `"\`, `a 'b "c"`, strings.Repeat("x", MaxLine+1)} {
		if got, err := Split(line); err == nil {
			t.Errorf("Split(%.20q) = %q, want an error", line, got)
		}
	}
}

func FuzzQuoteSplit(f *testing.F) {
	f.Add("a", "it's", "$(x) `y` \\ \"z\" !\n")
	f.Add("", "-n", "*")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want := []string{strings.ReplaceAll(a, "\x00", ""), strings.ReplaceAll(b, "\x00", ""),
			strings.ReplaceAll(c, "\x00", "")}
		line := Quote(a, b, c)
		if len(line) > MaxLine {
			return
		}
		if got, err := Split(line); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q becomes %q, %v", want, got, err)
		}
	})
}

// FuzzQuoteShell asks the real shell.
func FuzzQuoteShell(f *testing.F) {
	for _, s := range []string{"", "it's", "$(id)", "`id`", "a\nb", `\`, "'\\''", "~", "*", "#x", "a=b", "\xff\x80",
		"{a,b}", "!", "-n", "\r\x1b"} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 4096 {
			return
		}
		out, err := exec.Command("sh", "-c", "printf '%s\\0' "+Quote(a, b)).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(a, "\x00", "") + "\x00" + strings.ReplaceAll(b, "\x00", "") + "\x00"
		if string(out) != want {
			t.Fatalf("sh read %q as %q", want, out)
		}
	})
}

func FuzzSplit(f *testing.F) {
	f.Add(`a 'b c' "d\"e" f\ g`)
	f.Fuzz(func(t *testing.T, line string) {
		words, err := Split(line)
		if err != nil {
			return
		}
		again, err := Split(Quote(words...))
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "\x00", "")
		}
		if err != nil || !slices.Equal(again, words) {
			t.Fatalf("%q: %q becomes %q, %v", line, words, again, err)
		}
	})
}
