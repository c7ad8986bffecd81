package sql

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if _, err := Password(file); err == nil {
		t.Error("a file that is not there has a password")
	}
	for text, want := range map[string]string{"": "", " a b ": " a b ", "a\nb\n": "a", "a\r\nb": "a"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Password(file); err != nil || got != want {
			t.Errorf("%q gives %q, %v", text, got, err)
		}
	}
	if err := os.WriteFile(file, []byte(strings.Repeat("x", maxPassword+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Password(file); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}
