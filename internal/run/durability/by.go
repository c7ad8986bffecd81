package durability

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"tare/internal/lab/env"
	"tare/internal/sys/nbd"
)

// By is a way to cut the power, named after the part that ends first. The disk loses the data that were not flushed by
// then.
type By string

// The ways to cut the power.
const (
	ByDisk     By = "disk"     // the disk, and then the machine: the host loses its power
	ByKill     By = "kill"     // the machine's process is killed, and then the host loses its power
	ByPowerOff By = "poweroff" // the product switches the machine off, and then the host loses its power
)

// Ways lists them all.
func Ways() []By { return []By{ByDisk, ByKill, ByPowerOff} }

// cuts are n cuts in words.
func (b By) cuts(n int) string {
	s := fmt.Sprintf("%d cuts of the power", n)
	switch b {
	case ByKill:
		s += " (each after the machine's process was killed)"
	case ByPowerOff:
		s += " (each after the product had switched the machine off)"
	}
	return s
}

// cut ends disk and machine. With the disk going first, that is when so many writes wait for a flush.
func (m *machine) cut(ctx context.Context, pending int, fault nbd.Fault, seed uint64) (nbd.Cut, error) {
	switch m.By {
	case ByDisk:
		return m.disk.CutAt(pending, pendingTime, fault, seed)
	case ByKill:
		// The file that shows the disk is flushed as the process that had it open ends (FUSE's FLUSH).
		m.disk.IgnoreFlushes()
		if err := kill(m.env); err != nil {
			return nbd.Cut{}, err
		}
	case ByPowerOff:
		if err := m.plug.PowerOff(ctx, m.env); err != nil {
			return nbd.Cut{}, err
		}
	}
	// All its processes have ended when it is closed.
	err := m.env.Close()
	cut, cutErr := m.disk.CutAt(0, 0, fault, seed)
	return cut, errors.Join(err, cutErr)
}

// kill kills the machine's processes, the last first: those before it may only wait for it.
func kill(e env.Env) error {
	h, ok := e.(env.HostProcesses)
	if !ok {
		return errors.New("kill the machine's process: it has none on this machine")
	}
	for _, pid := range slices.Backward(h.Processes()) {
		p, err := os.FindProcess(pid)
		if err == nil {
			err = p.Kill()
		}
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	return nil
}
