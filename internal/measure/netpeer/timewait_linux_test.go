package netpeer

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
)

// timeWait counts the connections from or to an address of this machine that wait for their time to be over.
func timeWait(t *testing.T, address string) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprintf(":%04X ", netip.MustParseAddrPort(address).Port())
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 3 && f[3] == "06" &&
			(strings.HasSuffix(f[1]+" ", port) || strings.HasSuffix(f[2]+" ", port)) {
			n++
		}
	}
	return n
}
