//go:build !unix

package agent

// usage is not known here.
func usage() (u resources) { return u }
