package report

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"

	iozone "tare/internal/measure/workload/matrix"
)

// TestIozoneReadsBack reads a report as programs for iozone's output do: columns by their place under the header, and
// the tables of -R by their titles. Both hold the same figures.
func TestIozoneReadsBack(t *testing.T) {
	var out bytes.Buffer
	if err := Iozone(&out, fileModel()); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(out.String(), iozone.Header)
	if len(parts) < 3 {
		t.Fatalf("iozone's header is there %d times", len(parts)-1)
	}
	for _, part := range parts[1:] {
		table, excel, ok := strings.Cut(part, "\niozone test complete.\nExcel output is below:\n")
		if !ok {
			t.Fatalf("the table does not end as iozone's: %.300s", part)
		}
		rows := 0
		for line := range strings.Lines(table) {
			f := strings.Fields(line)
			if len(f) != 2+len(matrixOps) {
				t.Errorf("a row has not all columns: %s", line)
				continue
			}
			rows++
			for i, op := range matrixOps {
				if !inReport(excel, op.Title(), f[0], f[1], f[2+i]) {
					t.Errorf("%s of %s kB by %s is %s in the table and not in its own", op, f[0], f[1], f[2+i])
				}
			}
		}
		if rows == 0 {
			t.Error("a table has no rows")
		}
	}
}

// inReport tells whether one of the tables of -R has a figure.
func inReport(excel, title, size, record, want string) bool {
	_, rest, ok := strings.Cut(excel, "\""+title+"\"\n")
	if !ok {
		return false
	}
	head, body, _ := strings.Cut(rest, "\n")
	column := -1
	for i, m := range regexp.MustCompile(`"(\d+)"`).FindAllStringSubmatch(head, -1) {
		if m[1] == record {
			column = i
		}
	}
	for line := range strings.Lines(body) {
		f := strings.Fields(line)
		if len(f) == 0 {
			return false
		}
		if name, err := strconv.Unquote(f[0]); err == nil && name == size {
			return column >= 0 && column+1 < len(f) && f[column+1] == want
		}
	}
	return false
}
