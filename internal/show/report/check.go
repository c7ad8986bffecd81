package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"tare/internal/judge/failif"
	"tare/internal/record"
	"tare/internal/unit"
)

// Bounds of a check, by GitHub's description of its API.
const (
	maxTitle        = 250 // characters; an annotation's title takes 255
	mostAnnotations = 50
	maxAnnotation   = 2000 // characters of a message; 64 KB are taken
)

// noFile is the path that GitHub's runner itself gives an annotation that belongs to no file.
const noFile = ".github"

// checkRun is the request body by which GitHub's API makes a check.
type checkRun struct {
	Name       string      `json:"name"`
	HeadSHA    string      `json:"head_sha"`
	Status     string      `json:"status"`
	Conclusion string      `json:"conclusion"`
	DetailsURL string      `json:"details_url,omitempty"`
	Output     checkOutput `json:"output"`
}

type checkOutput struct {
	Title       string       `json:"title"`
	Summary     string       `json:"summary"`
	Annotations []annotation `json:"annotations,omitempty"`
}

// annotation is a remark at a line of a file.
type annotation struct {
	Path    string `json:"path"`
	Start   int    `json:"start_line"`
	End     int    `json:"end_line"`
	Level   string `json:"annotation_level"` // notice, warning, failure
	Title   string `json:"title,omitempty"`
	Message string `json:"message"`
}

// PullCheck writes the check of a pull request at a commit, as GitHub's API takes it.
func PullCheck(w io.Writer, p *Pull, commit string) error {
	conclusion, title := p.Conclusion()
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	err := e.Encode(checkRun{Name: p.Name, HeadSHA: commit, Status: "completed", Conclusion: string(conclusion),
		DetailsURL: p.Link, Output: checkOutput{Title: title, Summary: p.markdown(),
			Annotations: p.annotations()}})
	if err != nil {
		return fmt.Errorf("write check: %w", err)
	}
	return nil
}

// annotations are the conditions that hold, those that cannot be decided, and the differences; the worst first.
func (p *Pull) annotations() []annotation {
	var levels [3][]annotation
	add := func(level int, title, message string) {
		levels[level] = append(levels[level], annotation{Path: cmp.Or(p.Annotate, noFile), Start: max(1, p.Line),
			End: max(1, p.Line), Level: [...]string{"failure", "warning", "notice"}[level],
			Title: unit.Cut(clean(title), maxTitle), Message: unit.Cut(clean(message), maxAnnotation)})
	}
	if p.Problem != "" {
		add(0, "tare: not compared", p.Problem)
	}
	for i := range p.Results {
		r := &p.Results[i]
		for _, o := range r.FailIf {
			switch o.State {
			case failif.Holds:
				add(0, "tare: "+o.Expr, o.Text)
			case failif.Unknown:
				add(1, "tare: "+o.Expr, "cannot be decided: "+o.Text)
			}
		}
		d := newMarkdown(r.Model)
		for _, c := range d.pullCells() {
			if c.Verdict != record.Different {
				continue
			}
			text := fmt.Sprintf("%s costs %sx %s against %s in %s: %s against %s", c.Target, ratioText(c.Ratio.Center),
				bracket(c.Low, c.High, c.Level > 0), c.Baseline, c.Workload, figure(c.Center, c.Unit),
				figure(c.BaselineCenter, c.Unit))
			if seen := seenText(r.seen(c)); seen != "" {
				text += "; " + seen
			}
			add(2, "tare: "+d.pullName(c), text)
		}
	}
	var out []annotation
	for _, level := range levels {
		out = append(out, level...)
	}
	return out[:min(len(out), mostAnnotations)]
}

// mostCommands is the number of annotations of one level that GitHub shows of a step.
const mostCommands = 10

// PullAnnotations writes the annotations as commands to the runner of GitHub Actions, for a step that cannot make a
// check.
func PullAnnotations(w io.Writer, p *Pull) error {
	words := map[string]string{"failure": "error", "warning": "warning", "notice": "notice"}
	count := map[string]int{}
	for _, a := range p.annotations() {
		if count[a.Level]++; count[a.Level] > mostCommands {
			continue
		}
		place := ""
		if a.Path != noFile {
			place = fmt.Sprintf("file=%s,line=%d,", runnerProperty(a.Path), a.Start)
		}
		if _, err := fmt.Fprintf(w, "::%s %stitle=%s::%s\n", words[a.Level], place, runnerProperty(a.Title),
			runnerText(a.Message)); err != nil {
			return fmt.Errorf("write annotations: %w", err)
		}
	}
	return nil
}

// Escapes of the characters that would end a text in a command to the runner.
var (
	runnerEscapes         = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	runnerPropertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func runnerText(s string) string     { return runnerEscapes.Replace(s) }
func runnerProperty(s string) string { return runnerPropertyEscapes.Replace(s) }
