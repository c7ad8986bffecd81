package ssh

import (
	"context"
	"maps"
	"slices"

	"tare/internal/lab/env"
	"tare/internal/record"
)

// Address is the setting with the address of a machine that another driver knows.
const Address = "ssh"

// passed are this driver's settings that such a machine takes.
var passed = []string{"user", "port", "identity", "config", "known_hosts", "host_key", "options", "dir"}

// MachineSettings are the settings by which another driver's machine is entered. of says which one, as the beginning of
// a sentence; byDefault describes the behaviour without an address.
func MachineSettings(of, byDefault string) []env.Setting {
	all := []env.Setting{{Name: Address, Default: byDefault,
		Doc: of + ": how ssh reaches it, [USER@]HOST[:PORT] or a name of your configuration."}}
	for _, s := range Infos()[0].Settings {
		if slices.Contains(passed, s.Name) {
			s.Doc = of + ": as in the driver ssh. " + s.Doc
			all = append(all, s)
		}
	}
	return all
}

// Enter enters a machine that runs at an address, with those of the options' settings that are MachineSettings. facts
// are those that the other driver has of the machine.
func Enter(ctx context.Context, o env.Options, address string, facts record.Facts) (env.Env, error) {
	settings := maps.Clone(o.Settings)
	if settings == nil {
		settings = map[string]string{}
	}
	maps.Copy(settings, facts.Settings)
	settings[Address], facts.Settings = address, settings
	o.Spec = env.Spec{Name: o.Name, Driver: "ssh", Arg: address, Settings: map[string]string{}}
	for _, k := range passed {
		if s, ok := settings[k]; ok {
			o.Settings[k] = s
		}
	}
	e, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return env.Known(e, facts), nil
}
