package report

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// pngScale is the number of pixels for each CSS pixel: sharp on the screens people have.
const pngScale = 2

// PNG writes the headline chart of SVG as a picture at twice the scale, on white. Characters that the Go fonts do not
// have (they have Latin, Greek and Cyrillic) are boxes.
func PNG(w io.Writer, m *Model) error {
	f := newForest(m)
	width, height := f.size()
	img := image.NewRGBA(image.Rect(0, 0, int(width)*pngScale, int(height)*pngScale))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	f.draw(&pngPen{img: img, faces: map[style]font.Face{}})
	if err := png.Encode(w, img); err != nil {
		return fmt.Errorf("write PNG chart: %w", err)
	}
	return nil
}

type pngPen struct {
	img   *image.RGBA
	faces map[style]font.Face
}

func (p *pngPen) fill(outline []point, c colour) {
	low, high := outline[0], outline[0]
	for _, at := range outline {
		low, high = point{min(low.x, at.x), min(low.y, at.y)}, point{max(high.x, at.x), max(high.y, at.y)}
	}
	// The rasteriser works on the shape's own box, not on the whole picture.
	box := image.Rect(int(math.Floor(low.x*pngScale)), int(math.Floor(low.y*pngScale)), int(math.Ceil(high.x*pngScale)),
		int(math.Ceil(high.y*pngScale)))
	if box.Empty() {
		return
	}
	r := vector.NewRasterizer(box.Dx(), box.Dy())
	for i, at := range outline {
		x, y := float32(at.x*pngScale-float64(box.Min.X)), float32(at.y*pngScale-float64(box.Min.Y))
		if i == 0 {
			r.MoveTo(x, y)
			continue
		}
		r.LineTo(x, y)
	}
	r.ClosePath()
	r.Draw(p.img, box, image.NewUniform(c.rgba()), image.Point{})
}

func (p *pngPen) line(from, to point, thick float64, c colour) {
	d := math.Hypot(to.x-from.x, to.y-from.y)
	if d == 0 {
		return
	}
	nx, ny := (to.y-from.y)/d*thick/2, -(to.x-from.x)/d*thick/2
	p.fill([]point{{from.x + nx, from.y + ny}, {to.x + nx, to.y + ny}, {to.x - nx, to.y - ny},
		{from.x - nx, from.y - ny}}, c)
}

func (p *pngPen) text(at point, s string, st style) {
	key := style{size: st.size, bold: st.bold}
	face := p.faces[key]
	if face == nil {
		face = newFace(st.size*pngScale, st.bold)
		p.faces[key] = face
	}
	switch width := textWidth(s, st.size, st.bold); st.anchor {
	case atMiddle:
		at.x -= width / 2
	case atEnd:
		at.x -= width
	}
	d := font.Drawer{Dst: p.img, Src: image.NewUniform(st.colour.rgba()), Face: face,
		Dot: fixed.Point26_6{X: fixed.Int26_6(math.Round(at.x * pngScale * 64)),
			Y: fixed.Int26_6(math.Round(at.y * pngScale * 64))}}
	d.DrawString(s)
}

func (c colour) rgba() color.RGBA {
	return color.RGBA{R: uint8(c >> 16), G: uint8(c >> 8), B: uint8(c), A: 255}
}

// fonts are parsed once; a parsed font is safe for concurrent use, a face is not.
var fonts = sync.OnceValue(func() [2]*opentype.Font {
	var f [2]*opentype.Font
	for i, ttf := range [][]byte{goregular.TTF, gobold.TTF} {
		parsed, err := opentype.Parse(ttf)
		if err != nil {
			panic("the built-in font cannot be read: " + err.Error())
		}
		f[i] = parsed
	}
	return f
})

func newFace(size float64, bold bool) font.Face {
	f := fonts()[0]
	if bold {
		f = fonts()[1]
	}
	face, err := opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingNone})
	if err != nil {
		panic("the built-in font has no face: " + err.Error())
	}
	return face
}

var measuring struct {
	sync.Mutex
	faces [2]font.Face
}

// textWidth is the width of a text in the Go fonts, in pixels. They are measured at one large size, so that widths
// scale exactly.
func textWidth(s string, size float64, bold bool) float64 {
	const large = 256
	i := 0
	if bold {
		i = 1
	}
	measuring.Lock()
	defer measuring.Unlock()
	if measuring.faces[i] == nil {
		measuring.faces[i] = newFace(large, bold)
	}
	return float64(font.MeasureString(measuring.faces[i], s)) / 64 * size / large
}
