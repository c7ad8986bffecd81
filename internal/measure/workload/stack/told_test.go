package stack

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// TestToldAndReached has a site told to a client elsewhere, which reaches the front end that it asks for and no other.
func TestToldAndReached(t *testing.T) {
	at := Site{"home": "/srv/site", "cookie": "/srv/site/cookie", "host": "stack.test", "front": "/index.php",
		"code": "/srv/site/code", "program": "/srv/site/stack.sh",
		"apache": "127.0.0.1:18080", "nginx": "127.0.0.1:18081", "varnish": "127.0.0.1:18082"}
	told := at.Told("session=1")
	if strings.Contains(told, "/srv/site") || at.Elsewhere() {
		t.Errorf("it is told of as %s", told)
	}
	away := errors.New("no way")
	way := func(port uint16) (netip.AddrPort, error) {
		if port != 18082 {
			return netip.AddrPort{}, away
		}
		return netip.MustParseAddrPort("192.0.2.7:4000"), nil
	}
	endpoint, err := Reached(told, "stack-varnish:@front", way)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse(endpoint)
	if err != nil || !s.Elsewhere() || s["session"] != "session=1" {
		t.Fatalf("%v, %v", s, err)
	}
	to, path, err := s.Resolve("stack-varnish:@front")
	if err != nil || to.String() != "192.0.2.7:4000" || path != "/index.php" {
		t.Errorf("%s %s, %v", to, path, err)
	}
	if _, _, err := s.Resolve("stack:@front"); err == nil {
		t.Error("a front end that nobody asked for is reached")
	}
	if _, err := Reached(told, "stack:@front", way); !errors.Is(err, away) {
		t.Errorf("where no way leads: %v", err)
	}
	for _, bad := range []string{"", "{", "[]", `{"varnish":"here"}`, `{}`} {
		if s, err := Reached(bad, "stack-varnish:@front", way); err == nil {
			t.Errorf("%q is the site %s", bad, s)
		}
	}
}
