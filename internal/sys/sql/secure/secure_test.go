package secure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Connections are tested with real servers, in package mysql.
func TestConfigRefuses(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.pem")
	if err := os.WriteFile(text, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"nothing to verify": {Options{}, "give the host name"},
		"no authority":      {Options{Authority: "/no/such/file", Name: "x"}, "no such file"},
		"no certificate":    {Options{Authority: text, Name: "x"}, "contains no certificate"},
	} {
		if _, err := c.o.Config(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if c, err := (Options{Name: "x"}).Config(); err != nil || c.InsecureSkipVerify {
		t.Errorf("%v", err)
	}
}
