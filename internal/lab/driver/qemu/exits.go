package qemu

import (
	"encoding/json"
	"errors"
	"time"

	"tare/internal/sys/kvm"
)

// exitsTime is how long QEMU may take to tell its exits: it asks each virtual processor for them.
const exitsTime = time.Second

// Exits implements env.ExitCounter. QEMU tells them since version 7.1.
func (v *vm) Exits() (map[string]int64, error) {
	var processors []struct {
		Provider string `json:"provider"`
		Stats    []struct {
			Name  string          `json:"name"`
			Value json.RawMessage `json:"value"` // also yes and no, and lists
		} `json:"stats"`
	}
	if err := v.ask(`query-stats {"target":"vcpu"}`, exitsTime, &processors); err != nil {
		return nil, err
	}
	sum := kvm.Sum{}
	for _, p := range processors {
		for _, s := range p.Stats {
			if err := sum.Add(s.Name, string(s.Value)); err != nil && p.Provider == "kvm" {
				return nil, err
			}
		}
	}
	if len(sum) == 0 {
		return nil, errors.New("QEMU tells no exits of its virtual processors")
	}
	return sum, nil
}
