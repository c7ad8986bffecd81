package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// The files of a folder that a conversation sends and receives.
const (
	CommentFile  = "comment.json"  // the comment, as the API takes it
	CheckFile    = "check.json"    // the check, as the API takes it
	ResponseFile = "response.json" // the last answer
)

// Bounds of a conversation.
const (
	perPage = 100
	// mostPages bounds the pages of comments that are looked through. A pull request with more gets a second comment.
	mostPages   = 30
	maxResponse = 64 << 20 // bytes: a page of the longest comments
	maxTime     = 60       // s, for a request
)

// The stages of a conversation.
const (
	stageStart  = ""
	stageWho    = "who"    // as whom the token writes
	stageList   = "list"   // is there a comment already?
	stageUpdate = "update" // the comment that is there
	stageCreate = "create" // a comment
	stageCheck  = "check"
	stageDone   = "done"
)

// Talk is a conversation with a forge about one change, between two requests. Its JSON form is kept in a file.
type Talk struct {
	Stage string `json:"stage"`
	// Marker is the first line of the comment, and Author who wrote it: somebody else's comment is never changed, also
	// if it begins with the marker. "" for Author: GitLab is asked, and of GitHub it is its own bot.
	Marker string `json:"marker"`
	Author string `json:"author"`
	// Comment and Check say which of the two to write.
	Comment bool   `json:"comment"`
	Check   bool   `json:"check"`
	Page    int    `json:"page"`
	ID      int64  `json:"id"` // of the comment that is there
	Checked bool   `json:"checked"`
	Notes   []Note `json:"-"` // messages for the user, in order
}

// Note is a sentence for the user.
type Note struct {
	Text string
	Lack bool // something could not be told
}

// actionsBot writes with the token that GitHub Actions gives a job.
const actionsBot = "github-actions[bot]"

// Request is one request to an API.
type Request struct {
	Method, URL string
	Body        string // file that is sent; "" for none
	Output      string // file that the answer goes to
	Headers     []string
	Retry       bool // it may be repeated
}

// Curl writes the request as a configuration for curl.
func (r *Request) Curl() string {
	var b strings.Builder
	line := func(key, value string) {
		value = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(value)
		fmt.Fprintf(&b, "%s = \"%s\"\n", key, value)
	}
	line("url", r.URL)
	line("request", r.Method)
	for _, h := range r.Headers {
		line("header", h)
	}
	if r.Body != "" {
		line("data-binary", "@"+r.Body)
	}
	line("output", r.Output)
	fmt.Fprintf(&b, "max-time = %d\nmax-filesize = %d\n", maxTime, maxResponse)
	if r.Retry {
		b.WriteString("retry = 2\n")
	}
	return b.String()
}

// Next returns the next request, with files in dir; nil when everything is said.
func (t *Talk) Next(c *Change, dir string) *Request {
	if t.Stage == stageStart {
		t.start(c)
	}
	r := &Request{Method: "GET", Output: dir + "/" + ResponseFile, Retry: true}
	if c.Forge == forgeGitHub {
		r.Headers = []string{"Accept: application/vnd.github+json", "X-GitHub-Api-Version: 2022-11-28",
			"User-Agent: tare"}
	}
	send := func(method, file string) {
		r.Method, r.Body, r.Retry = method, dir+"/"+file, false
		r.Headers = append(r.Headers, "Content-Type: application/json")
	}
	switch t.Stage {
	case stageWho:
		r.URL = c.API + "/user"
	case stageList:
		r.URL = fmt.Sprintf("%s?per_page=%d&page=%d", c.comments(), perPage, t.Page)
	case stageCreate:
		r.URL = c.comments()
		send("POST", CommentFile)
	case stageUpdate:
		r.URL = c.comment(t.ID)
		if send("PATCH", CommentFile); c.Forge == forgeGitLab {
			r.Method = "PUT"
		}
	case stageCheck:
		r.URL = c.API + "/repos/" + c.Project + "/check-runs"
		send("POST", CheckFile)
	default:
		return nil
	}
	return r
}

// comments is the address of the list of the comments.
func (c *Change) comments() string {
	if c.Forge == forgeGitLab {
		return fmt.Sprintf("%s/projects/%s/merge_requests/%d/notes", c.API, url.PathEscape(c.Project), c.Number)
	}
	return fmt.Sprintf("%s/repos/%s/issues/%d/comments", c.API, c.Project, c.Number)
}

func (c *Change) comment(id int64) string {
	if c.Forge == forgeGitLab {
		return c.comments() + "/" + strconv.FormatInt(id, 10)
	}
	return fmt.Sprintf("%s/repos/%s/issues/comments/%d", c.API, c.Project, id)
}

// canComment and canCheck tell whether there is somebody to be told.
func (c *Change) canComment() bool {
	return c.Forge != "" && c.API != "" && c.Project != "" && c.Number > 0
}

func (c *Change) canCheck() bool {
	return c.System == Actions && c.API != "" && c.Project != "" && c.Commit != ""
}

func (t *Talk) start(c *Change) {
	t.Page = 1
	switch {
	case !t.Comment || !c.canComment():
		if t.Comment {
			t.note(true, "no comment: this run is for no pull request")
		}
		t.afterComment(c)
	case c.Forge == forgeGitLab && t.Author == "":
		t.Stage = stageWho
	default:
		if t.Author == "" {
			t.Author = actionsBot
		}
		t.Stage = stageList
	}
}

func (t *Talk) afterComment(c *Change) {
	if t.Stage = stageDone; t.Check && c.canCheck() {
		t.Stage = stageCheck
	}
}

func (t *Talk) note(lack bool, format string, args ...any) {
	t.Notes = append(t.Notes, Note{fmt.Sprintf(format, args...), lack})
}

// Refuse ends a conversation that cannot begin.
func (t *Talk) Refuse(why string) {
	t.Stage = stageDone
	t.note(true, "%s", why)
}

// answer has the fields that are read of an answer: a comment, a user, a check or an error.
type answer struct {
	ID       int64   `json:"id"`
	Body     string  `json:"body"`
	Link     string  `json:"html_url"`
	Message  message `json:"message"`
	Error    string  `json:"error"`
	Username string  `json:"username"`
	User     struct {
		Login string `json:"login"`
	} `json:"user"`
	Author struct {
		Username string `json:"username"`
	} `json:"author"`
}

// message is the text of an error. GitLab also has lists and objects there, which are taken as they are.
type message string

// UnmarshalJSON takes any JSON.
func (m *message) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		s = string(b)
	}
	*m = message(s)
	return nil
}

func (a *answer) by() string {
	if a.User.Login != "" {
		return a.User.Login
	}
	return a.Author.Username
}

// Answer takes the answer to the last request: its status of HTTP, 0 if there was no connection, and its body.
func (t *Talk) Answer(c *Change, status int, body io.Reader) {
	good := status >= 200 && status < 300
	var list []answer
	var one answer
	var err error
	if good && t.Stage == stageList {
		err = decode(body, &list)
	} else {
		err = decode(body, &one)
	}
	if good && err != nil {
		t.note(true, "the API's answer cannot be read: %v", err)
		good = false
	}
	why := reason(status, &one)
	switch t.Stage {
	case stageWho:
		if !good || one.Username == "" {
			t.note(true,
				"no comment on %s: the token is of nobody (%s); give a project access token with the scope api",
				c.Title(), why)
			t.afterComment(c)
			return
		}
		t.Author, t.Stage = one.Username, stageList
	case stageList:
		if !good {
			t.note(true, "no comment on %s: its comments cannot be read (%s); %s", c.Title(), why, c.right())
			t.afterComment(c)
			return
		}
		t.listed(list)
	case stageUpdate, stageCreate:
		t.written(c, good, status, why, &one)
	case stageCheck:
		if t.Stage = stageDone; good {
			t.Checked = true
			t.note(false, "the check is made: %s", clean(one.Link))
			return
		}
		t.note(true, "no check: the API refuses it (%s); give the job the permission `checks: write`, which pull "+
			"requests of forks do not get; its annotations are written to the log instead", why)
	default:
		t.Stage = stageDone
	}
}

// listed looks for the comment among a page of them.
func (t *Talk) listed(list []answer) {
	for i := range list {
		first, _, _ := strings.Cut(list[i].Body, "\n")
		if strings.TrimRight(first, "\r ") == t.Marker && strings.EqualFold(list[i].by(), t.Author) && list[i].ID > 0 {
			t.ID, t.Stage = list[i].ID, stageUpdate
			return
		}
	}
	if t.Page++; len(list) < perPage || t.Page > mostPages {
		t.Stage = stageCreate
	}
}

// written takes the answer to a comment.
func (t *Talk) written(c *Change, good bool, status int, why string, one *answer) {
	switch {
	case good && t.Stage == stageUpdate:
		t.note(false, "the comment on %s is updated: %s", c.Title(), clean(one.Link))
	case good:
		t.note(false, "%s has a comment: %s", c.Title(), clean(one.Link))
		if by := one.by(); by != "" && !strings.EqualFold(by, t.Author) {
			how := "TARE_AUTHOR="
			if c.System == Actions {
				how = "comment-author: "
			}
			t.note(true, "the comment is by %s, and the next run looks for one by %s: say %s%[1]s, or each run makes "+
				"another", clean(by), t.Author, how)
		}
	case t.Stage == stageUpdate && status == 404: // somebody has deleted it meanwhile
		t.Stage = stageCreate
		return
	default:
		t.note(true, "no comment on %s: the API refuses it (%s); %s", c.Title(), why, c.right())
	}
	t.afterComment(c)
}

// right says which right a job needs to comment, and how it gets it.
func (c *Change) right() string {
	switch {
	case c.System == Actions:
		return "give the job the permission `pull-requests: write`, which pull requests of forks do not get"
	case c.Forge == forgeGitLab:
		return "the token needs the scope api and the role Reporter or a higher one"
	}
	return "the token needs the right to write comments on pull requests"
}

func reason(status int, a *answer) string {
	if status == 0 {
		return "no answer"
	}
	text := strings.TrimSpace(string(a.Message) + " " + a.Error)
	return strings.TrimSuffix(fmt.Sprintf("status %d: %s", status, clean(text)), ": ")
}

// clean is a text of the other side for a line of ours.
func clean(s string) string { return unit.Cut(proc.Line(s[:min(len(s), 2000)]), 300) }

// decode reads one JSON value of at most maxResponse bytes.
func decode(r io.Reader, v any) error {
	if r == nil {
		return errors.New("it is empty")
	}
	return json.NewDecoder(io.LimitReader(r, maxResponse)).Decode(v)
}

// maxTalk bounds the file with a conversation, in bytes.
const maxTalk = 64 << 10

// ReadTalk reads a conversation that MarshalJSON wrote.
func ReadTalk(r io.Reader) (*Talk, error) {
	var t Talk
	if err := json.NewDecoder(io.LimitReader(r, maxTalk)).Decode(&t); err != nil {
		return nil, err
	}
	if t.Page < 0 || t.Page > mostPages+1 || t.ID < 0 {
		return nil, errors.New("it names a page or a comment that cannot exist")
	}
	return &t, nil
}
