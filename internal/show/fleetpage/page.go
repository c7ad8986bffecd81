package fleetpage

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"tare/internal/bundle"
	"tare/internal/judge/fleet"
	"tare/internal/record"
	"tare/internal/show/look"
	"tare/internal/sys/proc"
	"tare/internal/unit"
	"tare/internal/version"
)

//go:embed page.html
var pageText string

//go:embed fleet.css
var ownStyle string

// style is the pages' style sheet, and policy their content security policy: they may have that style, and nothing
// else.
var (
	style  = look.Base + ownStyle
	policy = func() string {
		sum := sha256.Sum256([]byte(style))
		return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; base-uri 'none'; form-action 'none'"
	}()
)

// Generated begins every page of a host, so that those that a fleet has no more can be told from a user's files.
const Generated = "<!doctype html>\n<!-- a host's page of tare fleet report -->\n"

var templates = template.Must(template.New("page").Funcs(template.FuncMap{
	"tare": func() string { return version.Version }, "line": proc.Line, "style": func() template.CSS {
		return template.CSS(style)
	},
	"policy": func() string { return policy }, "generated": func() template.HTML { return Generated },
	"plural": unit.Plural[int], "percent": percent, "share": func(v float64) string {
		return fmt.Sprintf("%.0f %%", 100*v)
	},
}).Parse(pageText))

// Pages writes the pages of one fleet.
type Pages struct {
	report *fleet.Report
	hosts  []fleet.Candidate
	cells  []*fleet.Cell // primary ones, in the order of the plan
	// places are the places of each host in each cell; nil where it has no value.
	places map[string][]*place
	files  map[string]string // of hosts, by name
	folder string            // of the hosts' pages, as the page of all leads there; "" for none
	dir    string            // of the fleet, as the user called it
	common map[string]*commonFact
	apart  []oddHost // that lie apart, made once
}

// place is a host's place in a cell.
type place struct {
	*fleet.Place
	at int // from 0
}

// New prepares the pages of a fleet that was judged. folder is the folder of the hosts' pages, relative to the page of
// all hosts; "" if none are written. dir is the user's name of the fleet's folder, for commands.
func New(r *fleet.Report, a *fleet.Admitted, folder, dir string) *Pages {
	p := &Pages{report: r, hosts: a.Hosts, places: map[string][]*place{}, files: map[string]string{}, folder: folder,
		dir: dir}
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Primary {
			p.cells = append(p.cells, c)
		}
	}
	for i, c := range a.Hosts {
		p.places[c.Host.Name] = make([]*place, len(p.cells))
		name := strings.ToLower(bundle.EvidenceName(c.Host.Name))
		p.files[c.Host.Name] = fmt.Sprintf("%04d-%s.html", i+1, name[:min(len(name), 60)])
	}
	for i, c := range p.cells {
		for at := range c.Order {
			x := &c.Order[at]
			if all := p.places[x.Host]; all != nil {
				all[i] = &place{x, at}
			}
		}
	}
	p.apart = p.odd()
	return p
}

// Files are the names of the hosts' pages, in the order of the hosts.
func (p *Pages) Files() []string {
	out := make([]string, len(p.hosts))
	for i, c := range p.hosts {
		out[i] = p.files[c.Host.Name]
	}
	return out
}

// link leads from the page of all hosts to one's; "" where there is none.
func (p *Pages) link(host string) string {
	file := p.files[host]
	if p.folder == "" || file == "" {
		return ""
	}
	return "./" + url.PathEscape(p.folder) + "/" + url.PathEscape(file)
}

// frame is the data of the frame that every page has around its body.
type frame struct {
	Title string
	Host  bool // a host's page
	Body  template.HTML
	Up    string // to the page of all hosts; ""
}

func render(w io.Writer, f *frame, name string, data any) error {
	var b bytes.Buffer
	err := templates.ExecuteTemplate(&b, name, data)
	if err == nil {
		f.Body = template.HTML(b.String())
		err = templates.ExecuteTemplate(w, "page", f)
	}
	if err != nil {
		return fmt.Errorf("write page %s: %w", f.Title, err)
	}
	return nil
}

func (p *Pages) title() string {
	if p.report.Name != "" {
		return p.report.Name
	}
	return "Fleet"
}

// what is the name of a cell: its workload and metric.
func what(k *fleet.Key) string {
	if k.IsRatio() {
		return fmt.Sprintf("%s in %s against %s", k.Workload, k.Target, k.Baseline)
	}
	return fmt.Sprintf("%s in %s", k.Workload, k.Target)
}

// value writes a ratio, or a figure in the cell's unit.
func value(c *fleet.Cell, v float64) string {
	if c.IsRatio {
		return unit.Number(v)
	}
	return unit.Format(v, c.Unit)
}

// interval writes one, or nothing where there is none.
func interval(c *fleet.Cell, low, high float64) string {
	if !(low > 0) {
		return ""
	}
	return fmt.Sprintf("%s to %s", value(c, low), value(c, high))
}

// percent writes how far a cost is from another: +12 %.
func percent(against float64) string {
	v := 100 * (against - 1)
	switch {
	case !(against > 0) || math.IsInf(v, 0):
		return "?"
	case against >= 10:
		return unit.Number(against) + " times"
	case math.Abs(v) < 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " %"
}

// signed is percent with its sign.
func signed(against float64) string {
	if against > 1 && against < 10 {
		return "+" + percent(against)
	}
	return percent(against)
}

// relative is the interval of a host's figure, as costs divided by the mean of the kind: a figure of which more is
// better has the lower cost at its upper end.
func relative(c *fleet.Cell, x *fleet.Place) (low, high float64) {
	if !(x.Low > 0) || !(x.Value > 0) {
		return 0, 0
	}
	low, high = x.Low/x.Value*x.Against, x.High/x.Value*x.Against
	if !c.IsRatio && unit.Better(c.Better) == unit.Higher {
		low, high = x.Value/x.High*x.Against, x.Value/x.Low*x.Against
	}
	return low, high
}

// Host is the file of a host's packed bundle as commands name it; "" where that is not known.
func (p *Pages) packed(c *fleet.Candidate) string {
	if c.File == "" || p.dir == "" {
		return ""
	}
	return filepath.Join(p.dir, c.File)
}

// class is the style class of a place, and its sign.
func class(x *fleet.Place) (name, sign string) {
	switch {
	case x.Apart && x.Against > 1:
		return "more", "▲"
	case x.Apart:
		return "less", "▼"
	}
	return "unsure", ""
}

var verdictClass = map[record.Verdict]string{record.Different: "more", record.Equivalent: "same",
	record.Measured: "measured", record.Inconclusive: "unsure", record.Withheld: "withheld", record.Failed: "failed"}
