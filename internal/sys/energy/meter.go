package energy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"tare/internal/sys/proc"
)

// meter is a command that prints a counter of joules.
type meter struct{ command []string }

const (
	meterTime = 5 * time.Second // in which the command must answer
	meterSays = 64              // bytes that a number may have
	mostMeter = 1e15            // J: from there on a number in joules is not exact to a tenth
)

// Name implements Source.
func (m *meter) Name() string { return Meter }

// Read implements Source. What the command prints is never repeated: it may hold what opens the meter.
func (m *meter) Read(ctx context.Context) (Reading, error) {
	if len(m.command) == 0 || m.command[0] == "" {
		return Reading{}, errors.New("the command of the meter is missing")
	}
	got := Reading{Began: time.Now()}
	within, cancel := context.WithTimeout(ctx, meterTime)
	defer cancel()
	var out head
	cmd := proc.Command(within, m.command...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.WaitDelay = &out, time.Second
	err := proc.Wait(cmd)
	got.Ended = time.Now()
	switch {
	case ctx.Err() != nil:
		return Reading{}, ctx.Err()
	case within.Err() != nil:
		return Reading{}, fmt.Errorf("the meter's command did not answer within %v", meterTime)
	case err != nil:
		return Reading{}, fmt.Errorf("the meter's command failed: %w", err)
	case out.more:
		return Reading{}, fmt.Errorf("the meter's command printed more than the %d bytes of a number", meterSays)
	}
	c, err := parseMeter(string(out.text))
	if err != nil {
		return Reading{}, err
	}
	got.counters = []counter{c}
	return got, nil
}

// parseMeter reads what the command printed: one decimal number.
func parseMeter(printed string) (counter, error) {
	s := strings.TrimSpace(printed)
	whole, decimals, point := strings.Cut(s, ".")
	if s == "" || strings.Trim(whole+decimals, "0123456789") != "" || point && whole == "" {
		return counter{}, errors.New("the meter's command must print one decimal number of joules that only grows, " +
			"such as 123456.7: no unit, no exponent (which would round it), no comma")
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v >= mostMeter {
		return counter{}, fmt.Errorf("the meter's command printed a number of joules beyond %.0g", float64(mostMeter))
	}
	return counter{name: Meter, value: v, joules: 1, step: math.Pow10(-len(decimals))}, nil
}

// head keeps the beginning of the written bytes.
type head struct {
	text []byte
	more bool
}

func (h *head) Write(p []byte) (int, error) {
	room := meterSays - len(h.text)
	h.text = append(h.text, p[:min(len(p), room)]...)
	h.more = h.more || len(p) > room
	return len(p), nil
}
