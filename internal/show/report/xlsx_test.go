package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/parquet-go/parquet-go"
	"github.com/xuri/excelize/v2"
)

func openBook(t *testing.T, m *Model) *excelize.File {
	t.Helper()
	f, err := excelize.OpenReader(bytes.NewReader(render(t, XLSX, m)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestXLSX opens the workbook again and holds its figures against the model.
func TestXLSX(t *testing.T) {
	m := fileModel()
	m.Trials = m.Trials[:400] // the raw rows are alike
	f := openBook(t, m)
	sheets := f.GetSheetList()
	for _, want := range []string{"Summary", "Cells", "fs.matrix direct=false", "fs.matrix direct=false curves",
		"fs.matrix direct=true", "cpu.prime", "fs.randread", "memory.latency", "Facts", "Plan", "Trials"} {
		if !slices.Contains(sheets, want) {
			t.Errorf("no sheet %q in %q", want, sheets)
		}
	}
	for _, s := range sheets {
		rows, err := f.GetRows(s)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			for j := range r {
				at, _ := excelize.CoordinatesToCellName(j+1, i+1)
				if formula, err := f.GetCellFormula(s, at); err != nil || formula != "" {
					t.Errorf("%s!%s is a formula: %s %v", s, at, formula, err)
				}
			}
		}
	}
	t.Run("fits", func(t *testing.T) {
		for _, s := range sheets {
			if l, err := f.GetPageLayout(s); err != nil || l.FitToWidth == nil || *l.FitToWidth != 1 ||
				*l.Orientation != "landscape" {
				t.Errorf("%s is not as wide as a page: %+v (%v)", s, l, err)
			}
			if p, err := f.GetSheetProps(s); err != nil || p.FitToPage == nil || !*p.FitToPage {
				t.Errorf("%s does not fit its page (%v)", s, err)
			}
		}
		// "12,345,678" and a margin: what does not fit its column is shown as #.
		if w, err := f.GetColWidth("fs.matrix direct=false", "B"); err != nil || w < 12 {
			t.Errorf("the columns of the matrix are %g characters wide (%v)", w, err)
		}
	})
	t.Run("matrix", func(t *testing.T) {
		x := m.matrices()[0]
		cell := func(at string) string {
			v, err := f.GetCellValue("fs.matrix direct=false", at, excelize.Options{RawCellValue: true})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		// Label, record sizes, a row for each file size, a blank row: the first two operations of the first two
		// targets.
		for at, want := range map[string]string{"A3": "host", "F3": "vm", "A5": "Writer report", "B6": "4", "C6": "64",
			"D6": "1024", "A7": "64", "A8": "1024", "D7": "", "A10": "Re-writer report", "F5": "Writer report",
			"F7": "64"} {
			if got := cell(at); got != want {
				t.Errorf("%s is %q, want %q", at, got, want)
			}
		}
		for at, p := range map[string]matrixPoint{"B7": {"host", "write", 64 << 10, 4 << 10},
			"D8": {"host", "write", 1 << 20, 1 << 20}, "C13": {"host", "rewrite", 1 << 20, 64 << 10},
			"G7": {"vm", "write", 64 << 10, 4 << 10}} {
			if got, err := strconv.ParseFloat(cell(at), 64); err != nil || got != x.kib[p] || got == 0 {
				t.Errorf("%s is %v (%v), want %v", at, got, err, x.kib[p])
			}
		}
	})
	t.Run("trials", func(t *testing.T) {
		rows, err := f.GetRows("Trials")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := m.eachRaw(func(*rawRow) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		if len(rows) != n+1 || !slices.Equal(rows[0], rawHeader) {
			t.Errorf("%d rows, want %d; head %q", len(rows), n+1, rows[0])
		}
	})
	t.Run("facts", func(t *testing.T) {
		rows, err := f.GetRows("Facts")
		if err != nil {
			t.Fatal(err)
		}
		found := map[string][]string{}
		for _, r := range rows {
			found[r[0]] = r
		}
		if r := found["kernel"]; len(r) != 5 || r[1] != "yes" || r[4] != hostile[1] {
			t.Errorf("kernel: %q", r)
		}
		if r := found["distribution"]; len(r) != 5 || r[1] != "" {
			t.Errorf("distribution: %q", r)
		}
	})
}

// TestXLSXHasCharts counts the charts: bars of ratios, curves over record sizes of both matrices and of fs.randread.
func TestXLSXHasCharts(t *testing.T) {
	m := fileModel()
	m.Trials = nil // none has a chart
	book := render(t, XLSX, m)
	r, err := excelize.OpenReader(bytes.NewReader(book))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	charts, logs := 0, 0
	r.Pkg.Range(func(name, v any) bool {
		if strings.HasPrefix(name.(string), "xl/charts/chart") {
			charts++
			if bytes.Contains(v.([]byte), []byte("logBase")) {
				logs++
			}
		}
		return true
	})
	// Four operations, two file sizes, two matrices; the ratios; fs.randread by record size.
	if want := 4*2*2 + 1 + 1; charts != want || logs != want {
		t.Errorf("%d charts, %d with a log axis; want %d", charts, logs, want)
	}
}

func TestSheetName(t *testing.T) {
	taken := map[string]bool{}
	for _, wanted := range []string{"fs.matrix vm:9p", "FS.MATRIX VM 9P", "", "History", "'quoted'",
		strings.Repeat("x", 40), strings.Repeat("x", 41), strings.Repeat("😀", 20), "a[b]*?/\\c", "\x1b"} {
		name := sheetName(wanted, taken)
		if n := len(utf16.Encode([]rune(name))); n == 0 || n > sheetLength || taken[strings.ToLower(name)] ||
			strings.ContainsAny(name, `:\/?*[]`) || strings.Trim(name, "'") != name {
			t.Errorf("%q gives %q", wanted, name)
		}
		taken[strings.ToLower(name)] = true
	}
}

func FuzzSheetName(f *testing.F) {
	f.Add("fs.matrix vm:9p", "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		taken := map[string]bool{}
		book := excelize.NewFile()
		defer book.Close()
		for _, wanted := range []string{a, b, a} {
			name := sheetName(wanted, taken)
			taken[strings.ToLower(name)] = true
			if _, err := book.NewSheet(name); err != nil {
				t.Fatalf("%q gives %q: %v", wanted, name, err)
			}
		}
	})
}

// TestParquet reads the file again and holds it against the rows, column by column.
func TestParquet(t *testing.T) {
	m := fileModel()
	data := render(t, Parquet, m)
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range file.Schema().Columns() {
		names = append(names, strings.Join(c, "."))
	}
	if !slices.Equal(names, rawHeader) {
		t.Errorf("columns %q, want those of CSV: %q", names, rawHeader)
	}
	r := parquet.NewGenericReader[rawRow](file)
	defer r.Close()
	back := make([]rawRow, r.NumRows())
	if n, err := r.Read(back); n != len(back) || err != nil && err != io.EOF {
		t.Fatal(n, err)
	}
	i := 0
	if err := m.eachRaw(func(want *rawRow) error {
		if got := back[i]; fmt.Sprint(got.values()) != fmt.Sprint(want.values()) {
			t.Fatalf("row %d:\n got %v\nwant %v", i, got.values(), want.values())
		}
		i++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if i != len(back) || i == 0 {
		t.Errorf("%d rows read, %d written", len(back), i)
	}
}

// TestGroupSheets: the workbook has every part of the work in every candidate, and the executions that differ.
func TestGroupSheets(t *testing.T) {
	m := scenes()["groups"]
	f := openBook(t, m)
	groups, differences := 0, 0
	for i := range m.Groups {
		groups += len(m.Groups[i].Groups)
		differences += len(m.Groups[i].Differences)
	}
	for sheet, want := range map[string]int{"Groups": groups, "Differences": differences} {
		rows, err := f.GetRows(sheet)
		if err != nil || len(rows) != want+1 || want == 0 {
			t.Errorf("%s: %d rows of %d (%v)", sheet, len(rows)-1, want, err)
		}
	}
	g := &m.Groups[0].Groups[0]
	for at, want := range map[string]string{"A2": m.Groups[0].Workload, "B2": m.Groups[0].Target, "D2": g.ID,
		"E2": g.Text, "F2": string(g.Verdict)} {
		if got, err := f.GetCellValue("Groups", at); err != nil || got != clean(want) {
			t.Errorf("%s is %q, want %q (%v)", at, got, want, err)
		}
	}
}
