//go:build !linux

package dbserver

import "context"

// Start fails: database servers are started on Linux only.
func Start(_ context.Context, o Options) (Server, error) {
	return nil, failure("refused", "", "start %s: database servers are started on Linux only; start the server "+
		"yourself and give its address", o.Product)
}
