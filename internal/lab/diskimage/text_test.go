package diskimage

import (
	"bytes"
	"strings"
	"testing"
)

func TestFragmentsOfOnePieceHaveNoRate(t *testing.T) {
	var r Report
	r.Pieces.Format, r.Pieces.FormatGiB = 1, 262144
	r.Pieces.Host, r.Pieces.HostGiB = 1200, 600
	r.Pieces.Product, r.Pieces.ProdGiB = 0, 0
	var out bytes.Buffer
	p := &printer{w: &out}
	p.pieces(&r)
	if want := "format 1 piece, host 1,200 extents (600 per GiB), together 0 pieces"; p.err != nil ||
		!strings.Contains(out.String(), want) {
		t.Errorf("%q, %v; want %q", out.String(), p.err, want)
	}
}
