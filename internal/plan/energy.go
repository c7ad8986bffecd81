package plan

import (
	"strings"

	"tare/internal/suggest"
	"tare/internal/sys/energy"
	"tare/internal/sys/shell"
)

// Energy says from where the energy of each trial is read.
type Energy struct {
	From  string   `yaml:"from" json:"from"`                       // a source of package energy
	Meter []string `yaml:"meter,omitempty" json:"meter,omitempty"` // its command, no shell; only of energy.Meter
}

// String is the value of --energy; "" for nil.
func (e *Energy) String() string {
	switch {
	case e == nil:
		return ""
	case e.From == energy.Meter:
		return e.From + ":" + shell.Quote(e.Meter...)
	}
	return e.From
}

// Bounds of a meter's command.
const (
	maxMeterWords = 64
	maxMeterWord  = 4096
)

var energySources = []string{energy.Auto, energy.RAPL, energy.Battery}

const energyForm = "auto, rapl, battery, or a meter: { meter: [COMMAND, ARGUMENT, ...] }"

// energy reads the source of energy: its name, or the command of a meter.
func (r *reader) energy(d *draft, n *node) {
	switch n.kind {
	case scalar:
		if !contains(energySources, n.text) {
			r.p.add(n.at, "expected %s, found %q%s", energyForm, n.text, suggest.DidYouMean(n.text, energySources))
		}
		d.Energy = &Energy{From: n.text}
	case mapping:
		d.Energy = &Energy{From: energy.Meter}
		for _, e := range n.keys {
			switch {
			case e.key != energy.Meter:
				r.p.add(e.at, "energy: there is no key %q; there is: meter", e.key)
			case e.value.kind != list:
				r.p.add(e.value.at, "expected a list of words, such as [my-meter, --joules]: a command and its "+
					"arguments, which no shell sees")
			default:
				for _, item := range e.value.items {
					d.Energy.Meter = append(d.Energy.Meter, r.text(item, maxMeterWord))
				}
			}
		}
		checkMeter(d.Energy.Meter, n.at, r.p)
	default:
		r.p.add(n.at, "expected %s, found %s", energyForm, n.kind)
	}
}

func checkMeter(words []string, at pos, p *problems) {
	switch {
	case len(words) == 0 || words[0] == "":
		p.add(at, "the command of the meter is missing")
	case len(words) > maxMeterWords:
		p.add(at, "the command of the meter has %d words; at most %d are possible", len(words), maxMeterWords)
	}
	for _, w := range words {
		if strings.ContainsRune(w, 0) {
			p.add(at, "a word of the meter's command holds a zero byte")
		}
	}
}

// flagEnergy reads the source of the command line.
func (d *draft) flagEnergy(text string, p *problems) {
	if text == "" {
		return
	}
	at := pos{file: "--energy"} // without the value: a command may hold a secret
	command, ok := strings.CutPrefix(text, energy.Meter+":")
	if !ok {
		if !contains(energySources, text) {
			p.add(at, "expected auto, rapl, battery or meter:COMMAND, found %q%s", text,
				suggest.DidYouMean(text, energySources))
		}
		d.Energy = &Energy{From: text}
		return
	}
	words, err := shell.Split(command)
	if err != nil {
		p.add(at, "the command of the meter: %v", err)
		return
	}
	checkMeter(words, at, p)
	d.Energy = &Energy{From: energy.Meter, Meter: words}
}

// energySchema describes the field.
func energySchema() object {
	return object{"anyOf": []object{
		{"enum": energySources},
		{"type": "object", "required": []string{energy.Meter}, "additionalProperties": false,
			"properties": object{energy.Meter: object{"type": "array", "minItems": 1, "maxItems": maxMeterWords,
				"items": object{"type": "string", "maxLength": maxMeterWord}}}},
	}}
}
