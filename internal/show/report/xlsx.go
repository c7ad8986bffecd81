package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"
)

// XLSX writes a workbook: the answers with the table of ratios and its chart; every cell; the matrices of fs.matrix
// laid out as iozone's own workbook, with curves over record sizes; a sheet for each other kind of workload; the parts
// of the work and the executions that returned something else; the costs restated and the value of a saving where they
// were asked for; the effect of flushes; the facts of the targets side by side; the plan; and the raw trials.
//
// Text is always written as text, never as a formula, whatever it begins with. A sheet of trials ends at the last row
// that a workbook can have, and says so.
func XLSX(w io.Writer, m *Model) error {
	b := &workbook{Model: m, file: excelize.NewFile(), taken: map[string]bool{}}
	defer b.file.Close()
	b.styles()
	b.summary()
	b.allCells()
	for _, x := range m.matrices() {
		b.matrix(x)
	}
	b.kinds()
	b.groupSheets()
	b.writeCosts()
	b.flushes()
	b.facts()
	b.plan()
	b.file.SetActiveSheet(0) // reads every sheet that there is: not the trials, which are written once and are long
	b.trials()
	b.properties()
	var book bytes.Buffer
	if b.err == nil {
		b.err = b.file.Write(&book)
	}
	if b.err == nil {
		b.err = steady(w, book.Bytes())
	}
	if b.err != nil {
		return fmt.Errorf("write XLSX report: %w", b.err)
	}
	return nil
}

// workbook is one rendering. The first error ends it: every method does nothing once there is one.
type workbook struct {
	*Model
	file  *excelize.File
	taken map[string]bool // sheet names in lower case, as Excel compares them
	err   error

	title, head, label, ratio, figure, wrap, differs int // styles
	colours                                          map[string]int
}

func (b *workbook) styles() {
	make := func(s excelize.Style) int {
		id, err := b.file.NewStyle(&s)
		b.fail(err)
		return id
	}
	fill := func(c string) excelize.Fill { return excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{c}} }
	// A small figure has all its digits: seconds of a flush would else be 0.
	ratioFormat, figureFormat := `0.00`, `[>=1000]#,##0;[>=10]0.0;General`
	b.title = make(excelize.Style{Font: &excelize.Font{Bold: true, Size: 15}})
	b.head = make(excelize.Style{Font: &excelize.Font{Bold: true}, Fill: fill("EFEFEA"),
		Border: []excelize.Border{{Type: "bottom", Color: "8A8A8A", Style: 1}}})
	b.label = make(excelize.Style{Font: &excelize.Font{Bold: true}})
	b.ratio = make(excelize.Style{CustomNumFmt: &ratioFormat})
	b.figure = make(excelize.Style{CustomNumFmt: &figureFormat})
	b.wrap = make(excelize.Style{Alignment: &excelize.Alignment{WrapText: true, Vertical: "top"}})
	b.differs = make(excelize.Style{Fill: fill("FFF0C2"),
		Alignment: &excelize.Alignment{WrapText: true, Vertical: "top"}})
	b.colours = map[string]int{}
	for _, c := range [][3]string{
		{"DIFFERENT", "FBE3D6", "9A3F00"}, {"costs less", "D8F0E6", "006B4E"}, {"EQUIVALENT", "DCEBF7", "00507D"},
		{"MEASURED", "E6F4FB", "1F6F9C"},
		{"INCONCLUSIVE", "EEEEEE", "555555"}, {"WITHHELD", "FFF0C2", "6B5000"}, {"FAILED", "FFF0C2", "6B5000"},
	} {
		id, err := b.file.NewConditionalStyle(&excelize.Style{Font: &excelize.Font{Color: c[2]}, Fill: fill(c[1])})
		b.fail(err)
		b.colours[c[0]] = id
	}
}

func (b *workbook) fail(err error) {
	if b.err == nil && err != nil {
		b.err = err
	}
}

// sheet adds a sheet. Its name is the wanted one, cut to Excel's rules: at most 31 UTF-16 units, none of : \ / ? * [ ],
// no apostrophe at either end, not "History", unlike all others whatever the case.
func (b *workbook) sheet(wanted string) string {
	name := sheetName(wanted, b.taken)
	b.taken[strings.ToLower(name)] = true
	if len(b.taken) == 1 {
		b.fail(b.file.SetSheetName("Sheet1", name))
	} else {
		_, err := b.file.NewSheet(name)
		b.fail(err)
	}
	b.fit(name)
	return name
}

// fit makes a sheet as wide as the page and as long as it must be on paper, where a table else comes in strips of
// columns. A filter undoes it (excelize replaces the properties that have it), so it comes after one.
func (b *workbook) fit(sheet string) {
	orientation, wide, long, fit := "landscape", 1, 0, true
	b.fail(b.file.SetPageLayout(sheet, &excelize.PageLayoutOptions{Orientation: &orientation, FitToWidth: &wide,
		FitToHeight: &long}))
	b.fail(b.file.SetSheetProps(sheet, &excelize.SheetPropsOptions{FitToPage: &fit}))
}

// sheetLength is the longest name of a sheet, in UTF-16 units.
const sheetLength = 31

func sheetName(wanted string, taken map[string]bool) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`:\/?*[]`, r) {
			return ' '
		}
		return r
	}, clean(wanted))
	name = strings.Trim(strings.Join(strings.Fields(name), " "), "' ")
	if name == "" || strings.EqualFold(name, "history") {
		name = "sheet " + name
	}
	base := name
	for i := 1; ; i++ {
		suffix := ""
		if i > 1 {
			suffix = fmt.Sprintf(" (%d)", i)
		}
		name = strings.Trim(cutUTF16(base, sheetLength-len(suffix)), "' ") + suffix
		if !taken[strings.ToLower(name)] {
			return name
		}
	}
}

func cutUTF16(s string, most int) string {
	n := 0
	for i, r := range s {
		n++
		if r > 0xffff {
			n++
		}
		if n > most {
			return s[:i]
		}
	}
	return s
}

// address names a cell by column and row, both from 1.
func (b *workbook) address(col, row int) string {
	name, err := excelize.CoordinatesToCellName(col, row)
	b.fail(err)
	return name
}

// put writes a value with a style; 0 is none. Text is cleaned, bounded and always text.
func (b *workbook) put(sheet string, col, row int, v any, style int) {
	if b.err != nil || v == nil {
		return
	}
	at := b.address(col, row)
	switch v := v.(type) {
	case string:
		b.fail(b.file.SetCellStr(sheet, at, cellText(v)))
	default:
		b.fail(b.file.SetCellValue(sheet, at, v))
	}
	if style != 0 {
		b.fail(b.file.SetCellStyle(sheet, at, at, style))
	}
}

func (b *workbook) row(sheet string, row, style int, values ...any) {
	for i, v := range values {
		b.put(sheet, i+1, row, v, style)
	}
}

// positive is nil for a figure that does not exist.
func positive(v float64) any {
	if v > 0 {
		return v
	}
	return nil
}

func (b *workbook) widths(sheet string, widths ...float64) {
	for i, w := range widths {
		name, err := excelize.ColumnNumberToName(i + 1)
		b.fail(err)
		b.fail(b.file.SetColWidth(sheet, name, name, w))
	}
}

// freeze keeps the rows above and the columns before a cell in sight.
func (b *workbook) freeze(sheet string, cols, rows int) {
	pane := "bottomRight"
	if cols == 0 {
		pane = "bottomLeft"
	}
	b.fail(b.file.SetPanes(sheet, &excelize.Panes{Freeze: true, XSplit: cols, YSplit: rows,
		TopLeftCell: b.address(cols+1, rows+1), ActivePane: pane}))
}

// span is a range as a chart takes it: 'fs.matrix'!$A$1:$B$2.
func (b *workbook) span(sheet string, col, row, toCol, toRow int) string {
	from, err := excelize.CoordinatesToCellName(col, row, true)
	b.fail(err)
	to, err := excelize.CoordinatesToCellName(toCol, toRow, true)
	b.fail(err)
	quoted := "'" + strings.ReplaceAll(sheet, "'", "''") + "'!"
	if from == to {
		return quoted + from
	}
	return quoted + from + ":" + to
}

// properties hold nothing of this computer or moment, so that the same run gives the same workbook.
func (b *workbook) properties() {
	if b.err != nil {
		return
	}
	when := "2006-09-16T00:00:00Z"
	for i := range b.Trials {
		if t := &b.Trials[i]; !t.Start.IsZero() {
			when = t.Start.UTC().Format("2006-01-02T15:04:05Z")
			break
		}
	}
	b.fail(b.file.SetDocProps(&excelize.DocProperties{Title: cellText(b.Model.title()),
		Creator: "tare " + clean(b.Run.Version), Created: when, Modified: when}))
}

// maxCellText is the most text of a cell, in characters.
const maxCellText = 32767

func cellText(s string) string {
	s = clean(s)
	if utf8.RuneCountInString(s) > maxCellText {
		return string([]rune(s)[:maxCellText])
	}
	return s
}
