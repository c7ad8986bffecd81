package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"tare/internal/show/report/page"
)

// ErrNoPage is the error of HTML in a build that was made without the page.
var ErrNoPage = errors.New("this build of tare has no report page, because it was made without Node.js; install " +
	"Node.js 20 or newer and run make build, or use --format text or json")

// The places in the page that the data go to. web/index.html has them.
const (
	dataBlock   = `<script type="application/json" id="tare-data">null</script>`
	trialsBlock = `<script type="application/json" id="tare-trials">null</script>`
)

// HTML writes one self-contained file that draws the report in a browser: the page that web/ builds, with the result
// and the trials in it as data. The page reads nothing else and its policy forbids it to. Nothing in the data can end
// its element, whatever names and outputs hold. The error is ErrNoPage in a build without the page.
func HTML(w io.Writer, m *Model) error {
	template, ok := page.HTML()
	if !ok {
		return fmt.Errorf("write HTML report: %w", ErrNoPage)
	}
	return writePage(w, template, m)
}

func writePage(w io.Writer, template []byte, m *Model) error {
	for _, b := range []struct {
		place string
		data  any
	}{{dataBlock, pageData(m)}, {trialsBlock, pageTrials(m, nil)}} {
		before, after, ok := bytes.Cut(template, []byte(b.place))
		if !ok {
			return fmt.Errorf("write HTML report: the page has no element for the data (%s); rebuild it with make "+
				"build", b.place)
		}
		open, end, _ := bytes.Cut([]byte(b.place), []byte("null"))
		if err := writeAll(w, before, open); err != nil {
			return err
		}
		// The encoder writes <, >, &, U+2028 and U+2029 as \u escapes, so no text can look like a tag to the browser.
		if err := json.NewEncoder(w).Encode(b.data); err != nil {
			return fmt.Errorf("write HTML report: %w", err)
		}
		if err := writeAll(w, end); err != nil {
			return err
		}
		template = after
	}
	return writeAll(w, template)
}

func writeAll(w io.Writer, parts ...[]byte) error {
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return fmt.Errorf("write HTML report: %w", err)
		}
	}
	return nil
}
