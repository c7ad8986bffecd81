//go:build !unix

package web

import (
	"errors"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
)

// system lists where this package works.
func system() []string { return []string{"linux", "darwin", "freebsd"} }

func newTrial(string) func(workload.Params) (workload.Trial, error) { return newCold }

// NewHost returns nothing: no pages are served here.
func NewHost() netpeer.Pages { return nil }

func newCold(workload.Params) (workload.Trial, error) { return nil, errUnix }

var errUnix = errors.New("http: this runs on Unix only")
