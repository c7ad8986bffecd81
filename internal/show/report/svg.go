package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// SVG writes the headline chart: the ratio of each cell with its interval on a log axis. The picture has no script, no
// style sheet and no reference to anything outside; a reader's program that cannot show it reads its title and
// description.
func SVG(w io.Writer, m *Model) error {
	f := newForest(m)
	width, height := f.size()
	var p svgPen
	fmt.Fprintf(&p.out,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" role="img" aria-labelledby="t d" font-family="%s">`+"\n",
		number(width), number(height), svgFonts)
	fmt.Fprintf(&p.out, "<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n", escapeXML(m.title()),
		escapeXML(strings.TrimSpace(f.damage+" "+strings.Join(f.answers, " "))))
	p.fill([]point{{0, 0}, {width, 0}, {width, height}, {0, height}}, paper)
	f.draw(&p)
	p.out.WriteString("</svg>\n")
	if _, err := w.Write(p.out.Bytes()); err != nil {
		return fmt.Errorf("write SVG chart: %w", err)
	}
	return nil
}

// svgFonts are as wide as Go's font, with which the chart is laid out, or narrower.
const svgFonts = "Go, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"

type svgPen struct{ out bytes.Buffer }

func (p *svgPen) fill(outline []point, c colour) {
	p.out.WriteString(`<path d="`)
	for i, at := range outline {
		command := "L"
		if i == 0 {
			command = "M"
		}
		p.out.WriteString(command + number(at.x) + " " + number(at.y))
	}
	fmt.Fprintf(&p.out, `Z" fill="#%06x"/>`+"\n", uint32(c))
}

func (p *svgPen) line(from, to point, thick float64, c colour) {
	fmt.Fprintf(&p.out, `<path d="M%s %sL%s %s" stroke="#%06x" stroke-width="%s"/>`+"\n", number(from.x),
		number(from.y), number(to.x), number(to.y), uint32(c), number(thick))
}

func (p *svgPen) text(at point, s string, st style) {
	fmt.Fprintf(&p.out, `<text x="%s" y="%s" font-size="%s" fill="#%06x"`, number(at.x), number(at.y), number(st.size),
		uint32(st.colour))
	if st.bold {
		p.out.WriteString(` font-weight="700"`)
	}
	switch st.anchor {
	case atMiddle:
		p.out.WriteString(` text-anchor="middle"`)
	case atEnd:
		p.out.WriteString(` text-anchor="end" style="font-variant-numeric:tabular-nums"`)
	}
	p.out.WriteString(">" + escapeXML(s) + "</text>\n")
}

// number writes a coordinate with at most two decimals: more would differ between processors that fuse multiplications.
func number(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

func escapeXML(s string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(clean(s))) // a bytes.Buffer takes everything
	return b.String()
}
