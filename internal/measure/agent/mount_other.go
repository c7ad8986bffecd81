//go:build !linux

package agent

import (
	"context"

	"tare/internal/measure/guestabi"
	"tare/internal/measure/wire"
	"tare/internal/record"
)

// mounts are the folders that the agent put into its system: none, where it cannot be the system's first process.
type mounts struct{}

func (mounts) add(context.Context, *guestabi.Mount) (wire.Mounted, *record.Failure) {
	return wire.Mounted{}, &record.Failure{Kind: "refused", Message: "an agent can mount folders on Linux only"}
}

func (mounts) in(string) {}

func (mounts) serves(int) bool { return false }

func (mounts) close() {}
