//go:build linux

package matrix

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tare/internal/measure/fileio"
	"tare/internal/sys/proc"
)

// helper names the variable that makes this test binary do one compatible row, for strace to watch.
const helper = "TARE_TEST_MATRIX_ROW"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helper); dir != "" {
		if err := helperRow(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// helperRow does the row that the environment describes: directory, size, record, letters of iozone.
func helperRow(setting string) error {
	f := strings.Split(setting, ":")
	var c Config
	if f[1] == "dd" {
		return helperDD(f[0])
	}
	if _, err := fmt.Sscan(f[1]+" "+f[2], &c.Size, &c.Rec); err != nil {
		return err
	}
	c.Ops, c.Data, c.Compat, c.Samples = AllOps(), iozonePayload, true, 1
	c.Direct, c.Fsync, c.Close = strings.Contains(f[3], "I"), strings.Contains(f[3], "e"), strings.Contains(f[3], "c")
	w, err := newRow(c, f[0])
	if err != nil {
		return err
	}
	if err := w.compat(context.Background()); err != nil {
		return err
	}
	return w.close()
}

// TestSequence compares the calls of a compatible row with those of iozone itself: each one on the file, in order, with
// its sizes and offsets.
func TestSequence(t *testing.T) {
	iozone := need(t, "iozone")
	need(t, "strace")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lengths := []int{20, 1, 37}
	if testing.Short() {
		lengths = lengths[:1]
	}
	for _, letters := range []string{"a", "ac", "ae", "ace", "aI", "aIe"} {
		for _, records := range lengths {
			t.Run(fmt.Sprintf("%s_%d", letters, records), func(t *testing.T) {
				size := records * 4096
				theirs := traced(t, "row", iozone, "-"+letters, "-s", fmt.Sprintf("%dk", size/1024), "-r", "4k", "-f",
					filepath.Join(diskDir(t), "row"))
				t.Setenv(helper, fmt.Sprintf("%s:%d:4096:%s", diskDir(t), size, letters))
				ours := traced(t, "row", self)
				for i := range min(len(theirs), len(ours)) {
					if theirs[i] != ours[i] {
						t.Fatalf("call %d of %d is %q, iozone's is %q; before: %v", i, len(ours), ours[i], theirs[i],
							ours[max(0, i-5):i])
					}
				}
				if len(theirs) != len(ours) || len(ours) < 13*records {
					t.Fatalf("%d calls, iozone does %d", len(ours), len(theirs))
				}
			})
		}
	}
}

// TestPayload compares the data with what iozone leaves in its file (-w).
func TestPayload(t *testing.T) {
	iozone := need(t, "iozone")
	for _, rec := range []int{1, 4, 64, 200} {
		name := filepath.Join(t.TempDir(), "row")
		if out, err := proc.Run(t.Context(), nil, iozone, "-w", "-i", "0", "-s", fmt.Sprint(rec*4), "-r",
			fmt.Sprint(rec), "-f", name); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		theirs, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		ours := newPayload(iozonePayload, int64(rec)<<10, 1, fileio.OrdinaryPages).record(0, 1)
		if want := slices.Concat(ours, ours, ours, ours); string(theirs) != string(want) {
			t.Errorf("records of %d KiB: iozone's file differs", rec)
		}
	}
}

var figures = regexp.MustCompile(`\d`)

// layout is what of an output does not depend on speed: figures as wide as iozone's own, each digit a 9.
func layout(text string) string { return figures.ReplaceAllString(text, "9") }

// TestLayout takes iozone's output apart, gives its figures to the table, and wants the same bytes.
func TestLayout(t *testing.T) {
	iozone := need(t, "iozone")
	for _, args := range [][]string{
		{"-Ra", "-g", "256k"},
		{"-Ra", "-g", "128k", "-i", "0"},
		{"-Ra", "-g", "128k", "-i", "0", "-i", "1"},
		{"-Ra", "-g", "128k", "-i", "0", "-i", "2"},
		{"-Ra", "-g", "128k", "-i", "0", "-i", "3", "-i", "5"},
		{"-Ra", "-g", "128k", "-i", "0", "-i", "4", "-i", "6"},
		{"-Ra", "-g", "128k", "-i", "0", "-i", "7"},
		{"-Ra", "-n", "16m", "-g", "32m", "-i", "0"}, // the crossover
		{"-R", "-s", "3000", "-r", "17", "-i", "0", "-i", "5"},
	} {
		t.Run(strings.Join(args, "_"), func(t *testing.T) {
			if testing.Short() && slices.Contains(args, "32m") {
				t.Skip("its files are large")
			}
			out, err := proc.Run(t.Context(), nil,
				append([]string{iozone}, append(args, "-f", filepath.Join(t.TempDir(), "row"))...)...)
			if err != nil {
				t.Fatal(err)
			}
			at := strings.Index(string(out), Header)
			if at < 0 {
				t.Fatalf("iozone's output does not have the header:\n%s", out)
			}
			theirs := poorTimer.ReplaceAllString(string(out)[at:], "")
			rows, figures := parseTable(t, theirs)
			var recs []int64
			if strings.Contains(args[0], "a") {
				for rec := int64(AutoMinRec); rec <= AutoMaxRec; rec *= 2 {
					recs = append(recs, rec)
				}
			}
			value := func(c *Cell) string { return figures[c] }
			var ours strings.Builder
			io.WriteString(&ours, Header)
			for i := range rows {
				ours.WriteString(rows[i].Line(value))
			}
			ours.WriteString("\niozone test complete.\nExcel output is below:\n")
			if err := WriteReports(&ours, rows, recs, value); err != nil {
				t.Fatal(err)
			}
			if layout(ours.String()) != layout(theirs) || ours.String() != theirs {
				t.Errorf("the table is\n%s\niozone's is\n%s", ours.String(), theirs)
			}
		})
	}
}

// poorTimer is a remark after the table that iozone makes when one of its transfers was shorter than its clock tells.
var poorTimer = regexp.MustCompile(`(?m)^Timer resolution is poor\. Some small transfers may have *\nreported inaccurate results\. Sizes \d+ kBytes and below\.\n`)

// parseTable reads iozone's table by the places of its columns.
func parseTable(t *testing.T, text string) ([]Done, map[*Cell]string) {
	t.Helper()
	figures := map[*Cell]string{}
	table, _, ok := strings.Cut(strings.TrimPrefix(text, Header), "\n\niozone test complete.")
	if !ok {
		t.Fatalf("iozone's output has no end:\n%s", text)
	}
	var rows []Done
	for _, line := range strings.Split(table, "\n") {
		line += strings.Repeat(" ", 200)
		var d Done
		if _, err := fmt.Sscan(line, &d.Size, &d.Rec); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		d.Size, d.Rec = d.Size<<10, d.Rec<<10
		at := 24
		d.Cells = make([]Cell, 0, numOps)
		for _, o := range AllOps() {
			text := strings.TrimSpace(line[at : at+columns[o].width])
			at += columns[o].width
			if text != "" {
				d.Cells = append(d.Cells, Cell{Op: o})
				figures[&d.Cells[len(d.Cells)-1]] = text
			}
		}
		rows = append(rows, d)
	}
	return rows, figures
}
