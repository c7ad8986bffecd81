//go:build slim

package agent

// hardware is left out of the slim agent, which has no room for it.
type hardware struct{}

func (hardware) open(map[string]string)  {}
func (hardware) close(map[string]string) {}
