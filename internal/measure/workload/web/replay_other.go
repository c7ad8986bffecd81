//go:build !unix

package web

import "tare/internal/measure/workload"

func newReplay(*replayOptions) (workload.Trial, error) { return nil, errUnix }
