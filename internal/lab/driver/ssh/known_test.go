package ssh

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// TestHasConnectsToNobody: a host exists if the configuration has it or its name resolves.
func TestHasConnectsToNobody(t *testing.T) {
	if _, err := proc.LookPath("ssh"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("ssh is not installed")
		}
		t.Skip("ssh is not installed")
	}
	config := filepath.Join(t.TempDir(), "config")
	// 192.0.2.0/24 is for documentation (RFC 5737): no host answers there.
	if err := os.WriteFile(config, []byte("Host led\n  HostName 192.0.2.1\nHost jumped\n  ProxyJump led\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]bool{"led": true, "jumped": true, "me@127.0.0.1": true,
		"tare-nobody.invalid": false, "-x": true} {
		s := env.Spec{Name: "m", Driver: "ssh", Arg: arg, Settings: map[string]string{"config": config}}
		got := has(t.Context(), s)
		if got.OK != want || !want && !strings.Contains(got.Detail, arg) {
			t.Errorf("%s: %+v, want %v", arg, got, want)
		}
	}
}

func TestEffectiveHost(t *testing.T) {
	for config, want := range map[string]struct {
		name string
		led  bool
	}{
		"host a\nhostname a\nproxycommand none\n": {"a", false},
		"hostname b.example\n":                    {"b.example", true},
		"hostname a\nproxyjump b\n":               {"a", true},
		"":                                        {"a", false},
	} {
		if name, led := effectiveHost(config, "a"); name != want.name || led != want.led {
			t.Errorf("%q: %s %v, want %+v", config, name, led, want)
		}
	}
}
