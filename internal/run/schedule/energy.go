package schedule

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/energy"
)

// energyMeter reads the energy that trials take, where the plan asks for it.
type energyMeter struct {
	source energy.Source // nil: there is none
	why    string        // then the reason
	here   map[string]string
}

// mostApart bounds the time between the two readings of a trial, as a multiple of its timed part: the energy of the
// time before and behind that is in the figure.
const mostApart = 1.1

// openEnergy finds the plan's source; nil for a plan that asks for none. A run goes on without one.
func openEnergy(ctx context.Context, e *plan.Energy, sys string) *energyMeter {
	if e == nil {
		return nil
	}
	m := &energyMeter{here: map[string]string{}}
	var err error
	if m.source, err = energy.Open(ctx, e.From, e.Meter, sys); err != nil {
		m.why = err.Error()
	}
	return m
}

// unknownReason says why the energy of a target's trials is not known; "" if it can be.
func (m *energyMeter) unknownReason(name string, at *target) string {
	if m.source == nil || m.source.Name() == energy.Meter { // a meter's user knows its scope
		return m.why
	}
	why, known := m.here[name]
	if !known {
		why = "its processes are not known on this machine, and the source is of this machine"
		if at.HostMemory != nil {
			if _, err := at.HostMemory(); err == nil {
				why = ""
			}
		}
		m.here[name] = why
	}
	return why
}

// trialEnergy measures the energy of one trial.
type trialEnergy struct {
	source        energy.Source
	why           string // it is not known
	before, after energy.Reading
	took          time.Duration // both readings
}

// energyOf prepares the energy reading of a trial in a target; nil if the plan asks for none. The trial is held for the
// first reading, which is its agent's affair: what several do together, and what the controller does itself, has no
// such moment.
func (x *trialRunner) energyOf(name string, at *target, by worker) *trialEnergy {
	if x.energy == nil {
		return nil
	}
	s := &trialEnergy{source: x.energy.source, why: x.energy.unknownReason(name, at)}
	if _, ok := by.(Agent); !ok && s.why == "" {
		s.why = "the work is not one timed part of one agent"
	}
	return s
}

// wanted tells whether the trial is to be held for a reading.
func (s *trialEnergy) wanted() bool { return s != nil && s.why == "" }

// held has a trial begin when the counters were read, and reads them again when its timed part has ended.
func (s *trialEnergy) held(ctx context.Context) deploy.Held {
	read := func(ctx context.Context, into *energy.Reading) {
		r, err := s.source.Read(ctx)
		if err != nil {
			s.why = err.Error()
			return
		}
		*into, s.took = r, s.took+r.Ended.Sub(r.Began)
	}
	return deploy.Held{
		Ready: func(ctx context.Context, _ string, _ int64) (int64, error) {
			read(ctx, &s.before)
			return wire.Now(), ctx.Err()
		},
		Ended: func() {
			if s.why == "" {
				read(ctx, &s.after)
			}
		},
	}
}

// record adds the energy for each unit of work, or why it is not known, to a trial that has ended well.
func (s *trialEnergy) record(t *record.Trial) {
	if s == nil || t.Error != nil || t.Work < 1 {
		return
	}
	text, perUnit := s.result(t)
	if _, own := t.Metrics[record.Energy]; own {
		text, perUnit = record.NotMeasured+"the workload has a metric of its own named "+record.Energy, 0
	}
	if t.State == nil {
		t.State = map[string]string{}
	}
	t.State["energy"] = text
	if perUnit > 0 {
		if t.Metrics == nil {
			t.Metrics = map[string]float64{}
		}
		t.Metrics[record.Energy] = perUnit
	}
}

func (s *trialEnergy) result(t *record.Trial) (text string, perUnit float64) {
	lacks := func(format string, args ...any) (string, float64) {
		return record.NotMeasured + fmt.Sprintf(format, args...), 0
	}
	if s.why != "" {
		return lacks("%s", s.why)
	}
	apart, timed := s.after.At().Sub(s.before.At()), time.Duration(t.ControllerNS)
	if float64(apart) > mostApart*float64(timed) {
		return lacks("the two readings were %v apart, and the timed part took %v of that: longer trials (trial: in a "+
			"plan) make what lies around it small", apart.Round(time.Millisecond), timed.Round(time.Millisecond))
	}
	used, err := energy.Between(s.before, s.after)
	if err != nil {
		return lacks("%v", err)
	}
	work := float64(t.Work)
	if t.Copies != nil {
		work *= float64(len(t.Copies.Each)) // each of them did it
	}
	var parts []string
	for _, p := range used.Parts {
		parts = append(parts, fmt.Sprintf("%s %.4g J", p.Name, p.Joules))
	}
	return fmt.Sprintf("%s: %.4g J in %.3f s (%s); both readings took %.3g ms", s.source.Name(), used.Joules,
		apart.Seconds(), strings.Join(parts, ", "), 1e3*s.took.Seconds()), used.Joules / work
}
