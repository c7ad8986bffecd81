// Package all lists every kind of workload; adding one is one line here.
package all

import (
	"sync"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/command"
	"tare/internal/measure/workload/cpu"
	"tare/internal/measure/workload/developer"
	"tare/internal/measure/workload/durability"
	"tare/internal/measure/workload/fs"
	"tare/internal/measure/workload/launch"
	"tare/internal/measure/workload/matrix"
	"tare/internal/measure/workload/memory"
	"tare/internal/measure/workload/network"
	"tare/internal/measure/workload/null"
	"tare/internal/measure/workload/restore"
	"tare/internal/measure/workload/sql"
	"tare/internal/measure/workload/syscalls"
	"tare/internal/measure/workload/web"
)

// Kinds returns all kinds in the order they are listed to the user. It panics on a duplicate name.
func Kinds() []workload.Kind {
	var all []workload.Kind
	seen := map[string]bool{}
	for _, kinds := range [][]workload.Kind{
		cpu.Kinds(), memory.Kinds(), syscalls.Kinds(), fs.Kinds(), matrix.Kinds(), developer.Kinds(),
		durability.Kinds(), restore.Kinds(), network.Kinds(), web.Kinds(), sql.Kinds(), command.Kinds(),
		launch.Kinds(), null.Kinds(),
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

// named has the kinds by name.
var named = sync.OnceValue(func() map[string]*workload.Kind {
	all, by := Kinds(), map[string]*workload.Kind{}
	for i := range all {
		by[all[i].Name] = &all[i]
	}
	return by
})

// Named returns the kind of that name to be asked what its work is; never nil. Of a name that this tare does not have,
// such as one in a bundle of another release, it is what workload.Former knows. The kind must not be changed.
func Named(name string) *workload.Kind {
	if k := named()[name]; k != nil {
		return k
	}
	return workload.Former(name)
}
