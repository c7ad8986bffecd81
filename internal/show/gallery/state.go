package gallery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"tare/internal/bundle"
	"tare/internal/record"
)

// Schema is the version of gallery.json.
const Schema = 1

// stateFile is the file that makes a folder a gallery.
const stateFile = "gallery.json"

// maxState bounds gallery.json, in bytes: some hundred thousand results.
const maxState = 512 << 20

// state is the content of gallery.json: the sources of a site. It holds nothing that is not on the pages but digests.
type state struct {
	Schema  int       `json:"schema"`
	Title   string    `json:"title"`
	Results []*result `json:"results"` // the oldest first
	// Files are the site's files and their SHA-256.
	Files map[string]string `json:"files"`
}

// result has the data of one bundle for lists, rankings and trends.
type result struct {
	ID   string   `json:"id"`
	Keys []string `json:"keys"` // of the inputs that hold it
	Name string   `json:"name"` // a digest of the input's name: the same file replaces its former content
	Run  string   `json:"run"`
	// Built is the build of tare that made the page.
	Built        string    `json:"built"`
	Created      time.Time `json:"created"`
	Title        string    `json:"title"`
	Headline     string    `json:"headline"`
	Environments []string  `json:"environments"`
	Workloads    []string  `json:"workloads"`
	Processors   []string  `json:"processors"`
	Kernels      []string  `json:"kernels"`
	Verdicts     [4]int    `json:"verdicts"` // cells that cost more, less, the same, and the others
	Bytes        int64     `json:"bytes"`    // of the packed bundle; 0 if the site has none
	Redacted     bool      `json:"redacted"`
	Masked       bool      `json:"masked"` // names were replaced for the site
	Finished     bool      `json:"finished"`
	Twice        bool      `json:"twice,omitempty"` // another result claims the same run
	Cells        []cell    `json:"cells"`
}

// cell is a primary cell with a ratio, or one that was withheld or failed.
type cell struct {
	Work      string         `json:"work"` // tells works apart: a digest of kind, parameters and metric
	Workload  string         `json:"workload"`
	Kind      string         `json:"kind"`
	Metric    string         `json:"metric"`
	Target    string         `json:"target"`
	Driver    string         `json:"driver"`
	Against   string         `json:"against"`
	AgainstBy string         `json:"against_by"` // the driver of the target that it is compared with
	Machine   string         `json:"machine"`
	Verdict   record.Verdict `json:"verdict"`
	Class     string         `json:"class"`
	Sign      string         `json:"sign"`
	Word      string         `json:"word"`
	Ratio     float64        `json:"ratio"` // 0 where none may be shown
	Low       float64        `json:"low"`
	High      float64        `json:"high"`
	Margin    float64        `json:"margin"`
	Emulated  bool           `json:"emulated,omitempty"`
}

func (r *result) pagePath() string   { return "results/" + r.ID + ".html" }
func (r *result) bundlePath() string { return "bundles/" + r.ID + bundle.Ext }

// files are those that belong to the result alone.
func (r *result) files() []string {
	if r.Bytes > 0 {
		return []string{r.pagePath(), r.bundlePath()}
	}
	return []string{r.pagePath()}
}

var (
	idRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}-[0-9a-f]{16}$`)
	// fileRE matches the paths of the site's files. Nothing else is written or removed.
	fileRE = regexp.MustCompile(`^(index\.html|work\.html|work-[1-9][0-9]{0,5}\.html|lists/[1-9][0-9]{0,5}\.html|` +
		`assets/gallery\.(css|js)|data/[1-9][0-9]{0,5}\.js|` +
		`results/[A-Za-z0-9][A-Za-z0-9_.-]{0,49}-[0-9a-f]{16}\.html|` +
		`bundles/[A-Za-z0-9][A-Za-z0-9_.-]{0,49}-[0-9a-f]{16}\.tare|` +
		`work/[a-z0-9-]{1,70}(\.[1-9][0-9]{0,5})?\.html)$`)
)

// siteFile tells whether a path is one that a gallery has.
func siteFile(path string) bool { return fileRE.MatchString(path) && !strings.Contains(path, "..") }

// parseState reads gallery.json. It is refused as a whole if something in it is not as tare writes it: paths in it are
// removed.
func parseState(src []byte) (*state, error) {
	var v struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(src, &v); err != nil {
		return nil, damaged("%v", err)
	}
	if v.Schema > Schema {
		return nil, fmt.Errorf("%w: it has schema %d, this tare knows up to %d", ErrNewer, v.Schema, Schema)
	}
	s := &state{}
	if err := json.Unmarshal(src, s); err != nil {
		return nil, damaged("%v", err)
	}
	if s.Schema < 1 {
		return nil, damaged("it names no schema")
	}
	seen := map[string]bool{}
	for _, r := range s.Results {
		switch {
		case r == nil || !idRE.MatchString(r.ID) || !siteFile(r.pagePath()):
			return nil, damaged("a result has no name")
		case seen[r.ID]:
			return nil, damaged("result %s is there twice", r.ID)
		}
		seen[r.ID] = true
	}
	for path := range s.Files {
		if !siteFile(path) {
			return nil, damaged("%.80q is no file of a gallery", path)
		}
	}
	return s, nil
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%s is damaged: %s; remove it with the folder's other files and build anew", stateFile,
		fmt.Sprintf(format, args...))
}

// marshal writes the state so that the same state gives the same bytes.
func (s *state) marshal() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", " ")
	err := e.Encode(s)
	return b.Bytes(), err
}
