package proc

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestTailKeepsTheEnd(t *testing.T) {
	var all []byte
	tail := NewTail(10)
	for _, chunk := range []string{"", "a", "bcd", "efghijkl", "0123456789", "0123456789xyz", "q"} {
		tail.Write([]byte(chunk))
		all = append(all, chunk...)
		want := all[max(0, len(all)-10):]
		if got := tail.Bytes(); !bytes.Equal(got, want) {
			t.Errorf("after %q: %q, want %q", chunk, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add([]byte("plain\ttext\n"))
	f.Add([]byte("\x1b]0;title\a\x1b[31mred\x9b1m\xff\r\n\u202e\u2028"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := Printable(b)
		if !utf8.ValidString(s) {
			t.Fatalf("%q is not UTF-8", s)
		}
		for _, r := range s {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
				t.Fatalf("%q lets %U through", b, r)
			}
		}
	})
}

func TestRunMissingProgram(t *testing.T) {
	_, err := Run(context.Background(), nil, "tare-no-such-program")
	if err == nil || !strings.Contains(err.Error(), "tare-no-such-program is not installed") {
		t.Errorf("got %v", err)
	}
	if _, ok := errors.AsType[*ExitError](err); ok {
		t.Error("a program that never ran must not look like one that failed")
	}
}

func TestTheLineThatTellsMost(t *testing.T) {
	for said, want := range map[string]string{
		"a\n\n b \n": "b", "": "",
		"[1.0] Kernel panic - not syncing: out of memory\n[1.1] CPU: 0\n[1.2] Rebooting\n": "[1.0] Kernel panic - " +
			"not syncing: out of memory",
		"tare: no disk\nmore\n": "tare: no disk",
	} {
		if got := Telling([]byte(said)); got != want {
			t.Errorf("of %q %q tells most", said, got)
		}
	}
}
