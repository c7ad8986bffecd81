package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"tare/internal/unit"
)

// The lines of a file between which the results stand.
const (
	beginMark = "<!-- bench: begin -->"
	endMark   = "<!-- bench: end -->"
)

// heading begins the section of a kind of processor.
const heading = "### "

// together is the section that has all kinds of processors side by side.
const together = "Side by side"

// section is the last full run on one kind of processor.
type section struct{ processor, text string }

// insert puts a result into a file, between its markers, in the place of the last one of the same kind of processor.
// A result of some rows replaces these alone.
func insert(path, processor, text string, some bool) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	whole, err := between(string(old), processor, text, some)
	if err != nil {
		return fmt.Errorf("write the result into %s: %w", path, err)
	}
	// A new file in its place, so that an interrupted write leaves the old one.
	tmp, err := os.CreateTemp(filepath.Dir(path), ".bench-*")
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	_, err = tmp.WriteString(whole)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// between puts the result of one kind of processor between the markers of a text. The results of others stay.
func between(old, processor, text string, some bool) (string, error) {
	head, rest, ok := strings.Cut(old, beginMark+"\n")
	within, tail, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return "", fmt.Errorf("it lacks the lines %s and %s", beginMark, endMark)
	}
	list := sections(within)
	at := slices.IndexFunc(list, func(s section) bool { return s.processor == processor })
	switch {
	case some && at < 0:
		return "", fmt.Errorf("it has no full run on a %s, so some rows alone cannot be put there: leave the names out",
			processor)
	case some:
		text = replaceRows(list[at].text, text)
	case at < 0:
		at, list = len(list), append(list, section{processor: processor})
	}
	list[at].text = strings.TrimSpace(text)
	var b strings.Builder
	b.WriteString(head + beginMark + "\n")
	if len(list) > 1 {
		b.WriteString("\n" + heading + together + "\n\n")
		sideBySide(&b, list)
	}
	for _, s := range list {
		fmt.Fprintf(&b, "\n%s%s\n\n%s\n", heading, s.processor, s.text)
	}
	b.WriteString("\n" + endMark + tail)
	return b.String(), nil
}

// sections cuts what stands between the markers at its headings. What is made anew from the others is left out.
func sections(text string) (list []section) {
	for i, part := range strings.Split("\n"+text, "\n"+heading) {
		name, rest, _ := strings.Cut(part, "\n")
		if name = strings.TrimSpace(name); i > 0 && name != together && name != "" {
			list = append(list, section{name, strings.TrimSpace(rest)})
		}
	}
	return list
}

// sideBySide writes a table with a column for each kind of processor: the ratio, the verdict and, where the medians
// are to agree and do not, how far they are apart.
func sideBySide(b *strings.Builder, list []section) {
	head := []string{"row"}
	var order []string
	cells := map[string][]string{}
	for i, s := range list {
		head = append(head, s.processor)
		for _, row := range tableLines(s.text) {
			if cells[row[0]] == nil {
				cells[row[0]] = make([]string, len(list))
				order = append(order, row[0])
			}
			cells[row[0]][i] = short(row)
		}
	}
	table := [][]string{head}
	for _, name := range order {
		table = append(table, append([]string{name}, cells[name]...))
	}
	writeTable(b, table)
}

// tableLine reads a line of a result's table; ok is false for any other line.
func tableLine(line string) (row []string, ok bool) {
	if !strings.HasPrefix(line, "| ") || !strings.HasSuffix(line, "|") {
		return nil, false
	}
	for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
		row = append(row, strings.TrimSpace(cell))
	}
	return row, len(row) == len(columns) && row[0] != columns[0] && strings.Trim(row[0], "-") != ""
}

// short says a line of the table in few words.
func short(row []string) string {
	what := row[3]
	if what == "" { // failed or not run
		what = row[1]
	}
	for _, more := range []string{row[6], row[7]} {
		if more != "" && !strings.HasSuffix(more, ": agree") && !strings.HasSuffix(more, "spread") {
			what += ", " + more
		}
	}
	return what
}

var againPattern = regexp.MustCompile(`\d+ rows? of these again: ([^.]+)\. `)

// withoutRows takes rows off the lines that say which were measured again, so that each is named at the run of its
// figure alone.
func withoutRows(head string, rows []string) string {
	var kept []string
	for _, line := range strings.Split(head, "\n") {
		if at := againPattern.FindStringSubmatchIndex(line); at != nil {
			names := slices.DeleteFunc(strings.Split(line[at[2]:at[3]], ", "), func(name string) bool {
				return slices.Contains(rows, name)
			})
			if len(names) == 0 {
				continue
			}
			line = line[:at[0]] + unit.Plural(len(names), "row") + " of these again: " + strings.Join(names, ", ") +
				line[at[3]:]
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n")
}

// replaceRows puts the lines of a result of some rows in the place of those that a full result has, those of new rows
// at its end, and says so below its first line.
func replaceRows(full, some string) string {
	var b, table strings.Builder
	again, put := map[string][][]string{}, map[string]bool{}
	for _, row := range tableLines(some) {
		again[rowName(row)] = append(again[rowName(row)], row)
	}
	rows := [][]string{columns}
	for _, row := range append(tableLines(full), tableLines(some)...) {
		name := rowName(row)
		if again[name] == nil {
			rows = append(rows, row)
		} else if !put[name] {
			put[name], rows = true, append(rows, again[name]...)
		}
	}
	agreed, compared := 0, 0
	for _, row := range rows[1:] {
		if row[7] != "" {
			compared++
		}
		if row[7] != "" && !strings.HasSuffix(row[7], differ) {
			agreed++
		}
	}
	writeTable(&table, rows)
	head, _, _ := strings.Cut(full, "\n| ")
	first, _, _ := strings.Cut(some, "\n")
	fmt.Fprintf(&b, "%s\n- %s of these again: %s. %s\n\n%s",
		withoutRows(strings.TrimRight(head, "\n"), toldRows(some)), unit.Plural(len(toldRows(some)), "row"),
		strings.Join(toldRows(some), ", "), first, table.String())
	writeAgreement(&b, agreed, compared)
	b.WriteString(toldHead)
	written := map[string]bool{}
	for _, name := range append(toldRows(full), toldRows(some)...) {
		from := full
		if put[name] {
			from = some
		}
		if !written[name] {
			written[name] = true
			b.WriteString(toldRow(from, name))
		}
	}
	return b.String()
}

func tableLines(text string) (rows [][]string) {
	for _, line := range strings.Split(text, "\n") {
		if row, ok := tableLine(line); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// rowName is the name of the row that a line of the table belongs to.
func rowName(line []string) string {
	name, _, _ := strings.Cut(line[0], ": ")
	return name
}

// toldRows are the rows that a result describes, in order.
func toldRows(text string) (names []string) {
	for _, line := range strings.Split(text, "\n") {
		if rest, ok := strings.CutPrefix(line, "- **"); ok {
			name, _, _ := strings.Cut(rest, "**")
			names = append(names, name)
		}
	}
	return names
}

// toldRow is what a result says of one row.
func toldRow(text, name string) string {
	_, rest, _ := strings.Cut("\n"+text, "\n- **"+name+"**")
	own, _, _ := strings.Cut(rest, "\n- **")
	return "- **" + name + "**" + strings.TrimRight(own, "\n") + "\n"
}
