package flame

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"tare/internal/unit"
)

// The drawing, in pixels.
const (
	width    = 1200
	edge     = 12
	row      = 17
	head     = 84   // title and legend
	between  = 40   // before a picture: its name
	narrow   = 0.3  // a box that is narrower is not drawn
	advance  = 6.62 // of a letter of 11 px
	mostBox  = 20_000
	mostText = 300 // bytes of a text
)

// style is that of the file. Boxes are light in both themes, because dark letters stand on them.
const style = `text{font:11px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#1b1b19}` +
	`.t{font:600 16px ui-sans-serif,system-ui,sans-serif;fill:var(--ink)}` +
	`.n{font:600 13px ui-sans-serif,system-ui,sans-serif;fill:var(--ink)}` +
	`.l{font:12px ui-sans-serif,system-ui,sans-serif;fill:var(--ink)}` +
	`svg{--paper:#fdfdfb;--ink:#1b1b19}.p{fill:var(--paper)}rect{stroke:var(--paper);stroke-width:.5}` +
	`@media(prefers-color-scheme:dark){svg{--paper:#161614;--ink:#ecebe6}}`

// SVG writes the picture. It returns ErrNothing if a side has no samples.
func SVG(out io.Writer, p *Picture) error {
	root, err := p.tree()
	if err != nil {
		return err
	}
	d := &drawing{Picture: p, scale: (width - 2*edge) / max(root.sum[0], root.sum[1]),
		most: root.most(min(len(p.Base.Rounds), len(p.Side.Rounds)))}
	d.rounds = min(len(p.Base.Rounds), len(p.Side.Rounds))
	deep := [2]int{d.depth(root, 0), d.depth(root, 1)}
	height := head + 2*between + (deep[0]+deep[1])*row + edge
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">`+
		"\n<title>%s</title><style>%s</style>\n"+`<rect class="p" width="%d" height="%d"/>`+"\n", width, height, width,
		height, text(p.Title), style, width, height)
	fmt.Fprintf(w, `<text class="t" x="%d" y="28">%s</text>`+"\n", edge, text(p.Title))
	fmt.Fprintf(w, `<text class="l" x="%d" y="48">time on a processor for each %s: the wider a box, the more; what a `+
		`function calls stands on it</text>`+"\n", edge, text(p.Unit))
	x := float64(edge)
	for _, k := range []struct{ fill, words string }{
		{tone(1), "+ more time than in the other"}, {tone(-1), "- less"},
		{grey, "as much, or not of the same sign in every round"}} {
		fmt.Fprintf(w, `<rect x="%.0f" y="58" width="14" height="14" fill="%s"/><text class="l" x="%.0f" y="69">%s`+
			"</text>\n", x, k.fill, x+20, k.words)
		x += 44 + 6.6*float64(len(k.words))
	}
	y := head
	for _, side := range []int{1, 0} {
		y += between + deep[side]*row
		s := [2]*Side{&p.Base, &p.Side}[side]
		what := ""
		if !s.Inside {
			what = " (what serves it on this machine)"
		}
		fmt.Fprintf(w, `<text class="n" x="%d" y="%d">%s%s: %s for each %s</text>`+"\n", edge, y-deep[side]*row-10,
			text(s.Name), what, unit.Format(root.sum[side], "ns"), text(p.Unit))
		d.box(w, root, side, edge, y, 0)
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

type drawing struct {
	*Picture
	scale  float64 // pixels of a ns
	most   float64 // the largest difference of a function's own time, ns
	rounds int
	boxes  int
}

// depth is the number of rows of a side.
func (d *drawing) depth(n *node, side int) int {
	if n.sum[side]*d.scale < narrow {
		return 0
	}
	deep := 0
	for _, k := range n.kids {
		deep = max(deep, d.depth(k, side))
	}
	return deep + 1
}

// most is the largest difference below the root that is shown.
func (n *node) most(rounds int) (most float64) {
	for _, k := range n.kids {
		if k.shown(rounds) {
			most = max(most, math.Abs(k.sum[1]-k.sum[0]))
		}
		most = max(most, k.most(rounds))
	}
	return most
}

// box draws a function with its callees above it. bottom is its lower edge.
func (d *drawing) box(w io.Writer, n *node, side int, x float64, bottom, level int) {
	wide := n.sum[side] * d.scale
	if wide < narrow || level > mostDepth || d.boxes >= mostBox {
		return
	}
	d.boxes++
	extra := n.sum[side] - n.sum[1-side]
	fill, sign := grey, ""
	if n.shown(d.rounds) && d.most > 0 && level > 0 {
		fill = tone(extra / d.most)
		sign = signed(extra)
	}
	top := bottom - row
	fmt.Fprintf(w, `<g><title>%s&#10;%s in %s, %s in %s for each %s</title><rect x="%.2f" y="%d" width="%.2f" `+
		`height="%d" fill="%s"/>`, text(n.name), unit.Format(n.sum[1], "ns"), text(d.Side.Name),
		unit.Format(n.sum[0], "ns"), text(d.Base.Name), text(d.Unit), x, top, wide, row, fill)
	if room := int((wide - 6) / advance); room >= 3 {
		label := printable(n.name)
		if long := label + " " + sign; sign != "" && utf8.RuneCountInString(long) <= room {
			label = long
		} else if sign != "" { // the sign stays when the name is cut
			label = sign[:1] + label
		}
		fmt.Fprintf(w, `<text x="%.2f" y="%d">%s</text>`, x+3, bottom-5, text(cut(label, room)))
	}
	fmt.Fprintln(w, "</g>")
	for _, k := range n.sorted() {
		d.box(w, k, side, x, top, level+1)
		x += k.sum[side] * d.scale
	}
}

const grey = "#d9d8d2"

// tone is red for more and blue for less, the fuller the nearer v is to 1 or -1.
func tone(v float64) string {
	full := math.Sqrt(math.Min(1, math.Abs(v)))
	mix := func(from, to float64) int { return int(math.Round(from + (to-from)*full)) }
	if v >= 0 {
		return fmt.Sprintf("#%02x%02x%02x", mix(245, 245), mix(225, 130), mix(215, 95))
	}
	return fmt.Sprintf("#%02x%02x%02x", mix(218, 110), mix(230, 180), mix(242, 240))
}

func signed(ns float64) string {
	if ns < 0 {
		return "-" + unit.Format(-ns, "ns")
	}
	return "+" + unit.Format(ns, "ns")
}

// cut shortens a text to so many characters.
func cut(s string, room int) string {
	if utf8.RuneCountInString(s) <= room {
		return s
	}
	r := []rune(s)
	return string(r[:room-1]) + "…"
}

// printable replaces characters that would not be drawn, or would turn the direction of writing.
func printable(s string) string {
	s = s[:min(len(s), mostText)]
	return strings.Map(func(r rune) rune {
		if r != ' ' && !unicode.IsGraphic(r) || r == utf8.RuneError {
			return '\ufffd'
		}
		return r
	}, s)
}

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// text is a text of others' as it stands in the file.
func text(s string) string { return escapes.Replace(printable(s)) }
