package cli

import (
	"context"
	"fmt"
	"strings"

	"tare/internal/plan"
	"tare/internal/sys/energy"
	"tare/internal/sys/proc"
)

// energyLine says from where the energy of trials will be read, or why it will not be; "" if nobody asks. A dry run
// starts no meter.
func energyLine(ctx context.Context, e *plan.Energy, dry bool) string {
	if e == nil {
		return ""
	}
	said, err := "", error(nil)
	if e.From == energy.Meter && dry {
		said = "by the meter's command, which a dry run does not start"
		if len(e.Meter) > 0 {
			_, err = proc.LookPath(e.Meter[0])
		}
	} else {
		var s energy.Source
		if s, err = energy.Open(ctx, e.From, e.Meter, "/sys"); err == nil {
			said = "by " + s.Name()
		}
	}
	if err != nil {
		said = "not measured: " + printableLine(err.Error())
	}
	return fmt.Sprintf("energy     %s\n", strings.TrimSpace(wrap(said, 11, 100)))
}
