package gallery

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"

	"tare/internal/unit"
)

// mostListed is the number of results on one page of a list.
const mostListed = 100

// pages writes everything but the results' own pages: the index with its data, the lists, and the pages of works.
func (s *site) pages(title string, results []*result) error {
	for name, text := range map[string]string{"assets/gallery.css": styleText, "assets/gallery.js": scriptText} {
		if err := s.write(name, []byte(text)); err != nil {
			return err
		}
	}
	scripts, err := s.data(results)
	if err != nil {
		return err
	}
	works := worksOf(results)
	if err := s.index(title, results, works, scripts); err != nil {
		return err
	}
	if err := s.workList(title, works); err != nil {
		return err
	}
	for _, w := range works {
		if err := s.workPages(title, w); err != nil {
			return err
		}
	}
	return nil
}

// entry is a result as the index's script reads it.
type entry struct {
	ID           string   `json:"i"`
	Title        string   `json:"t"`
	Headline     string   `json:"h"`
	Date         string   `json:"d"`
	Run          string   `json:"r"`
	Environments []string `json:"e"`
	Workloads    []string `json:"w"`
	Processors   []string `json:"p"`
	Kernels      []string `json:"k"`
	Verdicts     [4]int   `json:"v"`
	Note         string   `json:"n,omitempty"`
}

// noteOf is a warning about a result for lists: another one of the same run, or a run that has not ended.
func noteOf(r *result) string {
	switch {
	case r.Twice:
		return "another result claims the same run"
	case !r.Finished:
		return "this run has not ended"
	}
	return ""
}

// data writes the data that the index searches, the oldest first, so that a new result changes the last file only. It
// returns the files' names.
func (s *site) data(results []*result) (scripts []string, err error) {
	var chunk bytes.Buffer
	flush := func() error {
		chunk.WriteString("\n);\n")
		name := fmt.Sprintf("data/%d.js", len(scripts)+1)
		scripts = append(scripts, name)
		err := s.write(name, chunk.Bytes())
		chunk.Reset()
		return err
	}
	for _, r := range results {
		// The encoder writes <, >, &, U+2028 and U+2029 as \u escapes.
		row, err := json.Marshal(entry{r.ID, r.Title, r.Headline, r.Created.UTC().Format("2006-01-02 15:04"), r.Run,
			r.Environments, r.Workloads, r.Processors, r.Kernels, r.Verdicts, noteOf(r)})
		if err != nil {
			return nil, fmt.Errorf("write the index: %w", err)
		}
		if chunk.Len() > 0 && chunk.Len()+len(row) > maxRows {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		if chunk.Len() == 0 {
			chunk.WriteString("(globalThis.tareGallery ??= []).push(\n")
		} else {
			chunk.WriteString(",\n")
		}
		chunk.Write(row)
	}
	return scripts, flush()
}

// listRow is a result in a list.
type listRow struct {
	*result
	Up   string
	Note string
}

// indexBody is the data of the template of the index.
type indexBody struct {
	Site                string
	Results             string // "120 results"
	Environments, Works int
	From, To            string
	Rows                template.HTML
	Older               string // address of the last list; "" where the index has all
}

// index writes the index with the newest results, and all of them on pages whose numbers begin with the oldest.
func (s *site) index(title string, results []*result, works []*work, scripts []string) error {
	rows, err := listRows(results, "../")
	if err != nil {
		return err
	}
	lists := paginate([]section{{open: `<ol class="results">`, end: "</ol>", rows: rows}}, mostListed)
	for i, body := range lists {
		p := &pager{At: i + 1, Of: len(lists), Newest: "../index.html"}
		if i > 0 {
			p.First, p.Prev = "1.html", fmt.Sprintf("%d.html", i)
		}
		if i+1 < len(lists) {
			p.Next = fmt.Sprintf("%d.html", i+2)
		}
		page, err := render(&frame{Title: fmt.Sprintf("%s, page %d of %d", title, i+1, len(lists)),
			Heading: "All results, the oldest first", Site: title, Up: "../", Here: "results", Body: body, Pager: p})
		if err != nil {
			return err
		}
		if err := s.write(fmt.Sprintf("lists/%d.html", i+1), page); err != nil {
			return err
		}
	}
	newest := slices.Clone(results)
	slices.Reverse(newest)
	newest = newest[:min(len(newest), mostListed)]
	if rows, err = listRows(newest, ""); err != nil {
		return err
	}
	rows = rows[:fitting(rows, maxRows)]
	shown := paginate([]section{{open: `<ol class="results">`, end: "</ol>", rows: rows}}, mostListed)[0]
	body := &indexBody{Site: title, Results: unit.Plural(len(results), "result"), Works: len(works),
		From: dayOf(results[0]), To: dayOf(results[len(results)-1]), Rows: shown}
	if len(rows) < len(results) {
		body.Older = fmt.Sprintf("lists/%d.html", len(lists))
	}
	names := map[string]bool{}
	for _, r := range results {
		for _, e := range r.Environments {
			names[e] = true
		}
	}
	body.Environments = len(names)
	html, err := fragment("index", body)
	if err != nil {
		return err
	}
	page, err := render(&frame{Title: title, Site: title, Here: "results", Body: html,
		Scripts: append(scripts, "assets/gallery.js")})
	if err != nil {
		return err
	}
	return s.write("index.html", page)
}

func dayOf(r *result) string { return r.Created.UTC().Format("2006-01-02") }

func listRows(results []*result, up string) ([]template.HTML, error) {
	rows := make([]listRow, len(results))
	for i, r := range results {
		rows[i] = listRow{r, up, noteOf(r)}
	}
	return fragments("list-row", rows)
}

// workItem is a work in the list of works.
type workItem struct {
	*work
	Up string
}

// workList writes the list of works.
func (s *site) workList(title string, works []*work) error {
	items := make([]workItem, len(works))
	for i, w := range works {
		items[i] = workItem{w, ""}
	}
	slices.SortStableFunc(items, func(a, b workItem) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Label, b.Label), cmp.Compare(a.ID, b.ID))
	})
	rows, err := fragments("work-item", items)
	if err != nil {
		return err
	}
	open, err := fragment("work-list-open", nil)
	if err != nil {
		return err
	}
	name := func(i int) string {
		if i == 0 {
			return "work.html"
		}
		return fmt.Sprintf("work-%d.html", i+1)
	}
	pages := paginate([]section{{open: open, end: "</tbody></table></div>", rows: rows}}, 500)
	return s.paged(pages, name, frame{Title: "Work", Site: title, Here: "work"})
}

// paged writes the pages of a list, each with the way to the others.
func (s *site) paged(pages []template.HTML, name func(i int) string, f frame) error {
	base := func(i int) string {
		n := name(i)
		return n[1+lastSlash(n):]
	}
	for i, body := range pages {
		one := f
		one.Body = body
		if len(pages) > 1 {
			p := &pager{At: i + 1, Of: len(pages)}
			if i > 0 {
				p.First, p.Prev = base(0), base(i-1)
				one.Heading = f.Title
			}
			if i+1 < len(pages) {
				p.Next = base(i + 1)
			}
			one.Pager = p
		}
		page, err := render(&one)
		if err != nil {
			return err
		}
		if err := s.write(name(i), page); err != nil {
			return err
		}
	}
	return nil
}

func lastSlash(s string) int { return bytes.LastIndexByte([]byte(s), '/') }
