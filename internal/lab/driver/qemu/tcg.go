package qemu

import (
	"fmt"

	"tare/internal/lab/env"
)

// tcgAuto lets QEMU choose the number of emulation threads.
const tcgAuto = "auto"

func tcgSettings() []env.Setting {
	return []env.Setting{{Name: "tcg", Default: tcgAuto,
		Doc:   "Threads that emulate CPUs: multi, one for each; single, one for all; auto: QEMU's choice.",
		Check: env.OneOf(tcgAuto, "multi", "single"), Try: []string{"single"}}}
}

// checkTCG rejects the setting tcg for a CPU that is not emulated.
func (c *config) checkTCG() error {
	if c.tcg != tcgAuto && c.accel != "tcg" && c.accel != "auto" {
		return fmt.Errorf("tcg=%s sets how the CPU is emulated, but accel=%s does not emulate it", c.tcg, c.accel)
	}
	return nil
}

// accelOptions is the value of -accel.
func (c *config) accelOptions(accel string) string {
	if accel == "tcg" && c.tcg != tcgAuto {
		return accel + ",thread=" + c.tcg
	}
	return accel
}
