//go:build !linux

package agent

// counters beyond those of usage are not known here.
type counters struct{ before, after map[string]string }

func (c *counters) begin() {}
func (c *counters) end()   {}
