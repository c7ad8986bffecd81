// Package all lists every kind of workload; adding one is one line here.
package all

import (
	"tare/internal/workload"
	"tare/internal/workload/command"
	"tare/internal/workload/cpu"
	"tare/internal/workload/developer"
	"tare/internal/workload/durability"
	"tare/internal/workload/fs"
	"tare/internal/workload/matrix"
	"tare/internal/workload/memory"
	"tare/internal/workload/network"
	"tare/internal/workload/null"
	"tare/internal/workload/restore"
	"tare/internal/workload/syscalls"
	"tare/internal/workload/web"
)

// Kinds returns all kinds in the order they are listed to the user. It panics on a duplicate name.
func Kinds() []workload.Kind {
	var all []workload.Kind
	seen := map[string]bool{}
	for _, kinds := range [][]workload.Kind{
		cpu.Kinds(), memory.Kinds(), syscalls.Kinds(), fs.Kinds(), matrix.Kinds(), developer.Kinds(), durability.Kinds(), restore.Kinds(), network.Kinds(), web.Kinds(), command.Kinds(), null.Kinds(),
	} {
		for _, k := range kinds {
			if seen[k.Name] {
				panic("workload " + k.Name + " is listed twice")
			}
			seen[k.Name] = true
			all = append(all, k)
		}
	}
	return all
}

// Lookup returns the kind of that name.
func Lookup(name string) (*workload.Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return &k, true
		}
	}
	return nil, false
}
