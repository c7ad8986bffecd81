package report

import (
	"bytes"
	"image/png"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/xuri/excelize/v2"

	"tare/internal/judge/verdict"
)

// TestEveryFormTellsOfDamage renders the report of a damaged bundle in every form that can say so.
func TestEveryFormTellsOfDamage(t *testing.T) {
	const text = "this report is not of the whole bundle"
	spoilt := func(m *Model) *Model {
		m.Findings = slices.Insert(m.Findings, 0, verdict.Finding{Code: damaged, Severity: verdict.Attend, Text: text})
		m.Trials = m.Trials[:100]
		return m
	}
	for _, f := range Renderers() {
		if f.Name == "csv" || f.Name == "groups-csv" || f.Name == "html" {
			continue // CSV has rows and nothing else; the page shows the findings of its data
		}
		got := render(t, f.Render, spoilt(fileModel()))
		told := bytes.Contains(bytes.ToLower(got), []byte(text))
		switch f.Name {
		case "xlsx":
			book, err := excelize.OpenReader(bytes.NewReader(got))
			if err != nil {
				t.Fatal(err)
			}
			found, err := book.SearchSheet("Summary", ".*"+text+".*", true)
			told = err == nil && len(found) > 0
		case "parquet":
			file, err := parquet.OpenFile(bytes.NewReader(got), int64(len(got)))
			if err != nil {
				t.Fatal(err)
			}
			said, _ := file.Lookup(damaged)
			told = said == text
		case "png":
			// The line makes the picture higher by itself.
			whole, err := png.Decode(bytes.NewReader(render(t, f.Render, fileModel())))
			if err != nil {
				t.Fatal(err)
			}
			marked, err := png.Decode(bytes.NewReader(got))
			told = err == nil && marked.Bounds().Dy() == whole.Bounds().Dy()+19*pngScale
		}
		if !told {
			t.Errorf("%s does not tell", f.Name)
		}
	}
	if got := render(t, JUnit, spoilt(fileModel())); !bytes.Contains(got, []byte(`errors="1"`)) ||
		!bytes.Contains(got, []byte(`<error message="this report is not of the whole bundle" type="damaged">`)) {
		t.Error("a damaged bundle is no error of JUnit's")
	}
}
