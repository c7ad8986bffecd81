package env

import (
	"maps"

	"tare/internal/record"
)

// known is an environment that one driver has entered and another one knows.
type known struct {
	Env
	facts record.Facts
}

// Known adds what a driver knows of its machine to an environment that another driver has entered, such as by ssh.
func Known(e Env, facts record.Facts) Env { return &known{e, facts} }

// Facts are those of the connection, and those of the driver that knows the machine.
func (k *known) Facts() record.Facts {
	f := k.Env.Facts()
	f.Hypervisor, f.Emulated = k.facts.Hypervisor, k.facts.Emulated
	f.Threads, f.MemoryBytes = k.facts.Threads, k.facts.MemoryBytes
	f.Settings = k.facts.Settings
	f.Extra = maps.Clone(f.Extra)
	if f.Extra == nil {
		f.Extra = map[string]string{}
	}
	maps.Copy(f.Extra, k.facts.Extra)
	return f
}

// Mounts implements Mounter.
func (k *known) Mounts() []Mounted {
	if m, ok := k.Env.(Mounter); ok {
		return m.Mounts()
	}
	return nil
}

// Diagnose implements Diagnoser.
func (k *known) Diagnose() []byte {
	if d, ok := k.Env.(Diagnoser); ok {
		return d.Diagnose()
	}
	return nil
}
