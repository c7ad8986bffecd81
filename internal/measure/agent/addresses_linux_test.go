package agent

import (
	"slices"
	"strings"
	"testing"
)

func TestLocalAddresses(t *testing.T) {
	table := `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 192.0.2.0/24 2 0 2
        |-- 192.0.2.0
           /24 link UNICAST
        |-- 192.0.2.7
           /32 host LOCAL
        |-- 192.0.2.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.0
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
Local:
        |-- 192.0.2.7
           /32 host LOCAL
        |-- 198.51.100.9
           /32 host LOCAL
`
	if got, want := localAddresses(table), []string{"192.0.2.7", "198.51.100.9"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := localAddresses(strings.Repeat("|-- 192.0.2.7\n/32 host LOCAL\n", 3)); len(got) != 1 {
		t.Errorf("an address stands in the list %d times", len(got))
	}
}
