package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"tare/internal/show/report/page"
)

// PageFormat is the version of the data that the page reads.
const PageFormat = pageFormat

// liveBlock takes the place of the data in a page that asks the run for them.
const liveBlock = `<script type="application/json" id="tare-data">{"live":true}</script>`

var (
	policyRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]*)" />`)
	})
	silence = "default-src 'none'"
	speech  = silence + "; connect-src 'self'"
)

// LivePage returns the report page without data and the policy to send with it. It is the page of HTML, byte for byte,
// but for the mark that it is to ask its own server for the data, and the leave to do so. The error is ErrNoPage in a
// build without the page.
func LivePage() (html []byte, policy string, err error) {
	template, ok := page.HTML()
	if !ok {
		return nil, "", fmt.Errorf("serve live page: %w", ErrNoPage)
	}
	m := policyRE().FindSubmatch(template)
	if m == nil || !strings.HasPrefix(string(m[1]), silence+";") || !bytes.Contains(template, []byte(dataBlock)) {
		return nil, "", fmt.Errorf("serve live page: the page is from another build; rebuild it with make build")
	}
	policy = strings.Replace(string(m[1]), silence, speech, 1)
	html = bytes.Replace(template, m[1], []byte(policy), 1)
	html = bytes.Replace(html, []byte(dataBlock), []byte(liveBlock), 1)
	return html, policy + "; frame-ancestors 'none'", nil
}

// LiveData is a report in the pieces that the live page asks for.
type LiveData struct {
	Data    json.RawMessage            // all but the trials
	Targets []string                   // trials refer to these by index
	Series  map[string]json.RawMessage // the trials of the workloads asked for, by label
}

// Live encodes a report for the live page, with the trials of the workloads that changed.
func Live(m *Model, changed func(workload string) bool) (*LiveData, error) {
	trials := pageTrials(m, changed)
	out := &LiveData{Targets: trials.Targets, Series: map[string]json.RawMessage{}}
	for _, s := range trials.Series {
		b, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("encode trials of %s: %w", s.Workload, err)
		}
		out.Series[s.Workload] = b
	}
	var err error
	if out.Data, err = json.Marshal(pageData(m)); err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	return out, nil
}
