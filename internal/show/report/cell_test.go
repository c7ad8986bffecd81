package report

import (
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// A cell beyond the margin that its family does not confirm is not too near the margin.
func TestSignOfAMeasuredCell(t *testing.T) {
	c := verdict.Cell{Ratio: record.Ratio{Verdict: record.Measured, Center: 1.05, Blocks: 30}}
	if s := signOf(&c); s != measured {
		t.Errorf("near the margin: %q", glyphs[s].legend)
	}
	c.Warnings = []record.Warning{{Code: "not-confirmed"}}
	if s := signOf(&c); s != unconfirmed || glyphs[s].unicode != glyphs[measured].unicode {
		t.Errorf("not confirmed: %q", glyphs[s].legend)
	}
}
