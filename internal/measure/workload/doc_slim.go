//go:build slim

package workload

// Doc drops a text, which nobody reads here.
func Doc(string) string { return "" }
