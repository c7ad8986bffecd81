package energy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"
)

// battery is the energy left in all batteries of the machine.
type battery struct{ sys string }

// Joules of what batteries are counted in.
const (
	microwattHour   = 3.6e-3
	microampereHour = 3.6e-3 // at one volt
)

// Name implements Source.
func (b *battery) Name() string { return Battery }

// Read implements Source.
func (b *battery) Read(context.Context) (Reading, error) {
	got := Reading{Began: time.Now()}
	status := ""
	for _, entry := range class(b.sys, "power_supply") {
		dir := filepath.Join(b.sys, "class", "power_supply", entry)
		if kind, err := text(dir, "type"); err != nil || kind != "Battery" {
			continue
		}
		if scope, _ := text(dir, "scope"); scope == "Device" {
			continue // that of a mouse
		}
		c, err := left(dir)
		if err != nil {
			return Reading{}, fmt.Errorf("read the battery %s: %w", entry, err)
		}
		c.name = entry
		got.counters = append(got.counters, c)
		if s, _ := text(dir, "status"); status != "Discharging" { // one of several is enough
			status = s
		}
	}
	got.Ended = time.Now()
	switch {
	case len(got.counters) == 0:
		return Reading{}, errors.New("there is no battery in /sys/class/power_supply")
	case status != "Discharging":
		return Reading{}, fmt.Errorf("the battery does not discharge (%.20q): what the machine uses comes from the "+
			"mains, which nothing here counts", status)
	}
	return got, nil
}

// left is the charge state of a battery: its energy or, at its present voltage, its charge.
func left(dir string) (counter, error) {
	c := counter{joules: microwattHour, falls: true}
	var err error
	if c.value, err = count(dir, "energy_now"); err == nil {
		c.step = coarseness(c.value)
		return c, nil
	}
	if c.value, err = count(dir, "charge_now"); err != nil {
		return c, errors.New("it tells neither energy_now nor charge_now")
	}
	microvolts, err := count(dir, "voltage_now")
	if err != nil || microvolts == 0 {
		return c, errors.New("it tells its charge and not its voltage")
	}
	c.joules, c.step = microampereHour*microvolts/1e6, coarseness(c.value)
	return c, nil
}

// coarseness is the step of a counter that is not told, by the zeros that it ends in: 41230000 goes in steps of 10000,
// or smaller ones. Of two readings the one with fewer zeros tells more.
func coarseness(v float64) float64 {
	step := 1.0
	for step < 1e6 && v > 0 && math.Mod(v, step*10) == 0 {
		step *= 10
	}
	return step
}
