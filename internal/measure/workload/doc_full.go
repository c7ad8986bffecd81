//go:build !slim

package workload

// Doc is the text s of a kind, a parameter or a metric. The controller shows it; slim agents are built without (the tag
// slim), because they show nothing to anybody.
func Doc(s string) string { return s }
