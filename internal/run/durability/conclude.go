package durability

import "tare/internal/record"

// layerKernel is how far the watching looks.
const layerKernel = "the host's kernel (what the kernel and the disk do with it was not tested)"

// Conclude says what is known of a flush from what is declared and what was tried. What was seen beats what is
// declared, and a flush that was seen on its way beats one that was merely cheap. inMemory names the host's file system
// where the target's data ends in the host's memory; empty when it does not.
func Conclude(declared record.Durability, tests []record.FlushTest, inMemory string) record.Durability {
	d := declared
	d.Tests = tests
	for _, t := range tests {
		switch {
		case t.Name == record.FlushWatch && t.Verdict == record.Propagated:
			d.Verdict, d.Class, d.Layer, d.Text = record.Propagated, ClassFlushes, layerKernel, t.Text
		case t.Class == ClassIgnores && d.Verdict != record.Propagated && d.Class != ClassMemory:
			if d.Class != ClassIgnores {
				d.Text = t.Text
			} else {
				d.Text += "; " + t.Text
			}
			d.Class = ClassIgnores
		}
	}
	if inMemory != "" && d.Class != ClassIgnores && d.Class != ClassMemory {
		d.Class, d.Text = ClassMemory, "its data is in the host's memory ("+inMemory+"), where a flush ends; "+d.Text
	}
	return d
}
