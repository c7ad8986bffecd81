package report

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/internal/show/report/chromium"
)

// savedChart is a chart by the beginning of its name, what its file says, and a colour that only its data have.
type savedChart struct {
	chart string
	says  []string
	ink   color.RGBA
}

// saved has a chart of each kind.
var saved = []savedChart{
	{"forest-cpu", []string{"CPU: cost against host", "costs more", "the margin"}, color.RGBA{0xb8, 0x4a, 0x00, 0xff}},
	{"run-order-cpu.prime", []string{"cpu.prime: In the order they ran", "warm-up", "null control", "vm:9p"},
		color.RGBA{0x00, 0x9e, 0x73, 0xff}},
	{"spread-net.latency", []string{"net.latency: Spread", "vm:9p"}, color.RGBA{0x3f, 0xb6, 0x95, 0xff}},
	{"latency-net.latency", []string{"Latency percentiles", "p99.9", "vm"}, color.RGBA{0x00, 0x72, 0xb2, 0xff}},
	{"curve-fs.randread", []string{"by record size", "record size", "box"}, color.RGBA{0xd5, 0x5e, 0x00, 0xff}},
	{"heat-fs.matrix", []string{"file size × record size", "the lighter the faster", "64 KiB"},
		color.RGBA{0x00, 0x20, 0x51, 0xff}},
	{"cost-fs.", []string{"Time of one operation", "marks: measured", "vm:9p"}, color.RGBA{0x00, 0x9e, 0x73, 0xff}},
	{"cost-parts-", []string{"Where the time goes", "each call", "each byte"}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}},
	{"why-", []string{"Where the time goes: ", "1 is what host takes", "k kernel", "vm:9p"},
		color.RGBA{0xed, 0xa6, 0x3a, 0xff}},
	{"disk-vm", []string{"vm, scratch, aged: What the image holds", "stored compressed", "reading in order jumps"},
		color.RGBA{0xd5, 0x5e, 0x00, 0xff}},
	{"disk-vm, scratch, aged-order", []string{"Where it lies in the file", "place on the guest's disk"},
		color.RGBA{0x00, 0x72, 0xb2, 0xff}},
}

// testSaving saves a chart of each kind in both forms, and holds that the drawing stands alone and that the picture
// shows it.
func testSaving(t *testing.T, p *chromium.Tab) {
	chromium.Eval[any](p,
		`document.querySelectorAll("details.workload").forEach(d => d.open = ["cpu.prime", "net.latency"].includes(d.dataset.workload))`)
	p.Until("the workloads are open", `document.querySelectorAll('[data-workload="net.latency"] figure').length === 3`)
	for _, s := range saved {
		drawn(p, `figure[data-chart^="`+s.chart+`"]`)
		name, text := saveAs(t, p, s.chart, "SVG")
		if !strings.HasPrefix(name, "tare-"+fileWord(s.chart)) || !strings.HasSuffix(name, ".svg") {
			t.Errorf("%s is saved as %s", s.chart, name)
		}
		words := standsAlone(t, s.chart, text)
		for _, want := range append(s.says, "against host", "run run-1", "tare 0.1.0") {
			if !strings.Contains(words, want) {
				t.Errorf("the saved %s does not say %q: %s", s.chart, want, words)
			}
		}
		name, picture := saveAs(t, p, s.chart, "PNG")
		if !strings.HasPrefix(name, "tare-"+fileWord(s.chart)) || !strings.HasSuffix(name, ".png") {
			t.Errorf("%s is saved as %s", s.chart, name)
		}
		if dir := os.Getenv("TARE_ARTIFACTS"); dir != "" {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		decoded, err := png.Decode(bytes.NewReader(picture))
		if err != nil {
			t.Fatalf("%s as PNG: %v", s.chart, err)
		}
		shows(t, s.chart, decoded, drawingFrom(t, s.chart, text), s.ink)
	}
	// Every other chart of the page, as a drawing.
	rest := chromium.Eval[[]string](p,
		`[...document.querySelectorAll("figure.chart-frame")].filter(f => f.checkVisibility()).map(f => f.dataset.chart)`)
	if len(rest) < 15 {
		t.Errorf("only %d charts: %q", len(rest), rest)
	}
	for _, chart := range rest {
		if slices.ContainsFunc(saved, func(x savedChart) bool { return strings.HasPrefix(chart, x.chart) }) {
			continue
		}
		drawn(p, `figure[data-chart="`+chart+`"]`)
		_, text := saveAs(t, p, chart, "SVG")
		standsAlone(t, chart, text)
	}
}

// fileWord is how a name begins in a file's name.
func fileWord(s string) string {
	return strings.TrimSuffix(regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(s, "-"), "-")
}

// saveAs presses a button below a chart, and catches the file that the page makes.
func saveAs(t *testing.T, p *chromium.Tab, chart, button string) (name string, content []byte) {
	t.Helper()
	got := chromium.Eval[[]string](p,
		`new Promise(done => { const make = URL.createObjectURL, click = HTMLAnchorElement.prototype.click; const blobs = new Map();
		URL.createObjectURL = b => { const u = make(b); blobs.set(u, b); return u; };
		HTMLAnchorElement.prototype.click = function () { URL.createObjectURL = make; HTMLAnchorElement.prototype.click = click;
			const r = new FileReader(); r.onload = () => done([this.download, r.result]); r.readAsDataURL(blobs.get(this.href)); };
		const f = [...document.querySelectorAll("figure.chart-frame")].find(f => f.dataset.chart.startsWith("`+chart+`") && f.checkVisibility());
		[...f.querySelectorAll("button")].find(b => b.textContent === "`+button+`").click(); })`)
	_, data, _ := strings.Cut(got[1], ";base64,")
	content, err := base64.StdEncoding.DecodeString(data)
	if err != nil || len(content) == 0 {
		t.Fatalf("%s of %s: %d bytes, %v", button, chart, len(content), err)
	}
	return got[0], content
}

var (
	reference = regexp.MustCompile(`url\(\s*["']?([^"')]*)`)
	// What would draw something else in another program, or nothing.
	foreign = []string{"style", "script", "image", "foreignObject", "use", "link", "iframe"}
)

// standsAlone holds that a saved drawing needs nothing but itself, and returns its texts.
func standsAlone(t *testing.T, chart string, text []byte) string {
	t.Helper()
	var words strings.Builder
	ids, wanted := map[string]bool{}, []string{}
	elements, d := 0, xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s is no XML: %v\n%.500s", chart, err, text)
		}
		switch x := token.(type) {
		case xml.CharData:
			words.Write(x)
			words.WriteByte(' ')
		case xml.StartElement:
			elements++
			if x.Name.Space != "http://www.w3.org/2000/svg" || slices.Contains(foreign, x.Name.Local) {
				t.Errorf("%s has an element %s of %q", chart, x.Name.Local, x.Name.Space)
			}
			for _, a := range x.Attr {
				for _, m := range reference.FindAllStringSubmatch(a.Value, -1) {
					wanted = append(wanted, m[1])
				}
				switch {
				case a.Name.Local == "id":
					ids["#"+a.Value] = true
				case a.Name.Local == "href":
					wanted = append(wanted, a.Value)
				case a.Name.Local == "class" || a.Name.Local == "style" || strings.Contains(a.Value, "var(") ||
					strings.HasPrefix(a.Name.Local, "on"):
					t.Errorf("%s depends on the page: %s=%q", chart, a.Name.Local, a.Value)
				}
			}
		}
	}
	for _, w := range wanted {
		if !ids[w] {
			t.Errorf("%s refers to %q, which is not in it", chart, w)
		}
	}
	if elements < 20 {
		t.Errorf("%s has only %d elements", chart, elements)
	}
	return words.String()
}

var placed = regexp.MustCompile(`<g [^>]*transform="translate\(14,([0-9.]+)\)"`)

// drawingFrom is where below title and key the drawing itself begins, in pixels of the saved chart.
func drawingFrom(t *testing.T, chart string, svg []byte) float64 {
	t.Helper()
	all := placed.FindAllSubmatch(svg, -1)
	if len(all) == 0 {
		t.Fatalf("%s has no drawing: %.300s", chart, svg)
	}
	y, err := strconv.ParseFloat(string(all[len(all)-1][1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// shows holds that a picture, which has two pixels for each of the drawing, is no empty sheet: the colour of its data
// is in the drawing itself, in more than a stray pixel, and it is as large as a chart is to be.
func shows(t *testing.T, chart string, p image.Image, from float64, ink color.RGBA) {
	t.Helper()
	b := p.Bounds()
	colours, paper, inked := map[color.RGBA]bool{}, 0, 0
	for y := range b.Dy() {
		for x := range b.Dx() {
			c := color.RGBAModel.Convert(p.At(x, y)).(color.RGBA)
			colours[c] = true
			if c == (color.RGBA{0xfd, 0xfd, 0xfb, 0xff}) {
				paper++
			}
			if near(c, ink) && float64(y) >= 2*from {
				inked++
			}
		}
	}
	if b.Dx() < 700 || b.Dy() < 200 || len(colours) < 20 || inked < 30 || paper == b.Dx()*b.Dy() || paper == 0 {
		t.Errorf("the picture of %s is %v, has %d colours, %d pixels of paper and %d of %v", chart, b, len(colours),
			paper, inked, ink)
	}
}

// near leaves room for colour profiles and for the edges of marks.
func near(a, b color.RGBA) bool {
	far := func(x, y uint8) bool { return math.Abs(float64(x)-float64(y)) > 12 }
	return !far(a.R, b.R) && !far(a.G, b.G) && !far(a.B, b.B)
}
