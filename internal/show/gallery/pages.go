package gallery

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strconv"
	"time"

	"tare/internal/show/look"
	"tare/internal/unit"
	"tare/internal/version"
)

// Bounds of a page, in bytes: below 200 kB with the frame around the rows.
const (
	maxPage = 200_000
	maxRows = 150_000
)

// pageText has the templates. The policy of its pages forbids everything but the site's own style and script: no
// request leaves the site, and no text becomes markup or script. A page that was opened from a disk has no origin, so
// file: must be allowed for its own files; a page of a host cannot ask for such an address.
//
//go:embed page.html
var pageText string

//go:embed gallery.css
var ownStyle string

// styleText is the site's style sheet.
var styleText = look.Base + ownStyle

//go:embed gallery.js
var scriptText string

var templates = template.Must(template.New("page").Funcs(template.FuncMap{
	"tare":   func() string { return version.Version },
	"day":    func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
	"time":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" },
	"bytes":  func(n int64) string { return unit.Format(float64(n), "B") },
	"plural": unit.Plural[int],
	"place": func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	},
}).Parse(pageText))

// fragment renders a part of a page.
func fragment(name string, data any) (template.HTML, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("render %s: %w", name, err)
	}
	return template.HTML(b.String()), nil
}

// fragments renders a row for each of some things.
func fragments[T any](name string, rows []T) ([]template.HTML, error) {
	out := make([]template.HTML, 0, len(rows))
	for i := range rows {
		f, err := fragment(name, &rows[i])
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// fitting is the number of rows that fit into so many bytes.
func fitting(rows []template.HTML, room int) int {
	for i, r := range rows {
		if room -= len(r); room < 0 {
			return i
		}
	}
	return len(rows)
}

// section is rows between an opening and a closing text. It goes on on the next page where one is full.
type section struct {
	open, end template.HTML
	rows      []template.HTML
}

// paginate lays sections out on pages of at most maxRows bytes and mostRows rows each. There is always one page.
func paginate(sections []section, mostRows int) []template.HTML {
	var pages []template.HTML
	var page bytes.Buffer
	rows := 0
	full := func() {
		pages = append(pages, template.HTML(page.String()))
		page.Reset()
		rows = 0
	}
	for _, s := range sections {
		open := false
		for _, r := range s.rows {
			need := len(r) + len(s.end)
			if !open {
				need += len(s.open)
			}
			if page.Len() > 0 && (page.Len()+need > maxRows || rows >= mostRows) {
				if open {
					page.WriteString(string(s.end))
				}
				full()
				open = false
			}
			if !open {
				page.WriteString(string(s.open))
				open = true
			}
			page.WriteString(string(r))
			rows++
		}
		if open {
			page.WriteString(string(s.end))
		}
	}
	if page.Len() > 0 || len(pages) == 0 {
		full()
	}
	return pages
}

// frame is the data of the frame that every page has around its body.
type frame struct {
	Title   string // of the page
	Site    string // of the gallery
	Up      string // the way to the site's root: "" or "../"
	Here    string // results, work, or "": which part of the site it is
	Heading string // of a body that has none; ""
	// Scripts are the addresses of the page's scripts, in order.
	Scripts []string
	Body    template.HTML
	Pager   *pager
}

// pager leads from one page of a list to the next.
type pager struct {
	At, Of                    int
	First, Prev, Next, Newest string // addresses; "" for none
}

// render makes a whole page.
func render(f *frame) ([]byte, error) {
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "page", f); err != nil {
		return nil, fmt.Errorf("render page %s: %w", f.Title, err)
	}
	if b.Len() > maxPage {
		return nil, fmt.Errorf("render page %s: it has %d bytes, more than %d", f.Title, b.Len(), maxPage)
	}
	return b.Bytes(), nil
}
