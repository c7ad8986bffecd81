package logs

import (
	"strings"
	"testing"

	"tare/internal/sys/sql/log"
)

// TestHTML makes a page of a log that somebody has put markup into: in the name of the file, the comment, the statement
// and the database.
func TestHTML(t *testing.T) {
	const text = "261121  0:05:31\t     8 Connect\ta@b on <b>d\n" +
		"\t\t     8 Query\t/* <script>alert(1)</script> */ SELECT a FROM `<script>alert(2)</script>`\n" +
		"\t\t     8 Query\tDELETE FROM t\n261121  0:05:41\t     8 Query\tSELECT NOW()\n\t\t     8 Quit\t\n"
	r, err := log.Open(strings.NewReader(text), log.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := log.Summarize(r, log.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	s.Logs = []string{"/somewhere/<script>alert(3)<script>.log"}
	var b strings.Builder
	if err := HTML(&b, s, 2); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, never := range []string{"<script", "<b>", "/somewhere"} {
		if strings.Contains(page, never) {
			t.Errorf("%s stands in the page", never)
		}
	}
	for _, want := range []string{"default-src 'none'", "/* &lt;script&gt;alert(?)", "`&lt;script&gt;alert(2)",
		"write: changes rows", "2 of 3 fingerprints", "sessions open over time, at most 1",
		`<rect class="skipped" x="66.667" y="0" width="33.333" height="10"/>`, "2026-11-21T00:05:31Z", "the time"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if n := strings.Count(page, `height="100.00"`); n < 11 {
		t.Errorf("a session that did nothing for ten seconds was open in %d of them", n)
	}
}
