package mount

import (
	"context"

	"tare/internal/lab/env"
)

// kind is a row of the table: the description for users, and the function that serves it.
type kind struct {
	env.MountKind
	serve func(context.Context, *job) (*Served, error)
}

func kinds() []kind {
	return []kind{kind9p(), kindVirtiofs(), kindNFS(), kindSMB(), kindSSHFS(), kindRsync()}
}

// Kinds lists the mounts that a virtual machine can have.
func Kinds() []env.MountKind {
	all := kinds()
	out := make([]env.MountKind, len(all))
	for i := range all {
		out[i] = all[i].MountKind
	}
	return out
}

func lookup(name string) (kind, bool) {
	for _, k := range kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return kind{}, false
}
