package agent

import (
	"os"
	"slices"
	"strings"
)

// addresses lists this system's IPv4 addresses but the loopback's, as the kernel's routes to itself have them. Package
// net, which could tell as well, would make the agent larger.
func addresses() []string {
	b, _ := os.ReadFile("/proc/thread-self/net/fib_trie") // without it nothing is known
	return localAddresses(string(b))
}

// localAddresses reads a table of routes: an address has a line, and one of its next lines says "host LOCAL".
func localAddresses(table string) (found []string) {
	address := ""
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if leaf, ok := strings.CutPrefix(line, "|-- "); ok {
			address = leaf
		} else if strings.HasSuffix(line, "host LOCAL") && !strings.HasPrefix(address, "127.") &&
			!slices.Contains(found, address) && len(found) < maxPlaces {
			found = append(found, address)
		}
	}
	return found
}
