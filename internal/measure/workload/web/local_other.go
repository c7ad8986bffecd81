//go:build unix && !linux

package web

import (
	"net/netip"
	"time"

	"tare/internal/measure/workload/stack"
)

// local is a server of the user's in this environment; its processes are not known here.
type local struct{ used map[int]time.Duration }

func newLocal(netip.AddrPort, stack.Site) *local { return nil }

func (*local) took() (time.Duration, bool) { return 0, false }

func (*local) parts() string { return "" }

func (*local) busiest() int { return 1 }
