package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// CSV writes the raw trials, one row for each metric of each trial, as RFC 4180 describes it: commas, CRLF, quotes
// where needed, one header line. Numbers have all their digits, times are UTC in RFC 3339, unknown values are empty.
//
// Text that a spreadsheet would take for a formula is preceded by an apostrophe; see inert.
func CSV(w io.Writer, m *Model) error {
	c := csv.NewWriter(w)
	c.UseCRLF = true
	if err := c.Write(rawHeader); err != nil {
		return fmt.Errorf("write CSV report: %w", err)
	}
	line := make([]string, len(rawHeader))
	err := m.eachRaw(func(r *rawRow) error {
		for i, v := range r.values() {
			line[i] = csvText(v)
		}
		return c.Write(line)
	})
	if err == nil {
		c.Flush()
		err = c.Error()
	}
	if err != nil {
		return fmt.Errorf("write CSV report: %w", err)
	}
	return nil
}

func csvText(v any) string {
	switch v := v.(type) {
	case string:
		return inert(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.Format(time.RFC3339Nano)
	}
	return ""
}

// inert puts an apostrophe before text that a spreadsheet would take for a formula, as OWASP advises against CSV
// injection: text that begins with = + - @, or with the full-width forms of these that some programs read alike.
func inert(s string) string {
	if r, _ := utf8.DecodeRuneInString(s); r != utf8.RuneError && strings.ContainsRune("=+-@＝＋－＠", r) {
		return "'" + s
	}
	return s
}
