package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// apiToken is what the stand-ins take for a token.
const apiToken = "ghs_0123456789abcdefTOKEN"

// apiCall is a call of a forge's API as testdata/forge describes it: its path and the values of its query are regular
// expressions, its body has a schema.
type apiCall struct {
	Method, Path string
	Query        map[string]string
	Body         json.RawMessage
	Status       int
	schema       *jsonschema.Schema
}

// comment is one that the stand-in has.
type comment struct {
	ID   int
	Body string
	By   string
}

// standIn is a forge's API on the loopback. Each request is held against the description; what does not fit fails the
// test.
type standIn struct {
	*httptest.Server
	t       *testing.T
	gitLab  bool
	headers map[string]string
	calls   []apiCall
	// published is GitHub's own description; nil where it is not here.
	published *openAPI

	mu       sync.Mutex
	comments []comment
	checks   []map[string]any
	said     []string // METHOD PATH of each request
	forbid   string   // methods and paths that the token has no right to: a regular expression
}

// newStandIn starts the stand-in that a file of testdata/forge describes.
func newStandIn(t *testing.T, name string) *standIn {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../testdata/forge", name))
	if err != nil {
		t.Fatal(err)
	}
	var about struct {
		Headers map[string]string
		Calls   []apiCall
	}
	if err := json.Unmarshal(text, &about); err != nil {
		t.Fatal(err)
	}
	s := &standIn{t: t, gitLab: name == "gitlab.json", headers: about.Headers, calls: about.Calls}
	for i := range s.calls {
		c := &s.calls[i]
		if c.Body == nil {
			continue
		}
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(c.Body)))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("mem:call", document); err != nil {
			t.Fatal(err)
		}
		if c.schema, err = compiler.Compile("mem:call"); err != nil {
			t.Fatal(err)
		}
	}
	if !s.gitLab {
		s.published = publishedAPI(t)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP answers as the forge does.
func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, r.Method+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	call, body, problem := s.described(r)
	if problem != "" {
		s.t.Errorf("%s %s is not as the API describes it: %s", r.Method, r.URL, problem)
		w.WriteHeader(http.StatusUnprocessableEntity)
		io.WriteString(w, `{"message":"Validation Failed"}`)
		return
	}
	if seen := seenInArguments(apiToken); seen != "" {
		s.t.Errorf("a command line has the token: %s", seen)
	}
	if s.forbid != "" && regexp.MustCompile(s.forbid).MatchString(r.Method+" "+r.URL.Path) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"message":"Resource not accessible by integration"}`)
		return
	}
	status, answer := s.answer(r, call, body)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer)
}

// described finds the call that a request is, and says what of it is not as described.
func (s *standIn) described(r *http.Request) (call *apiCall, body map[string]any, problem string) {
	if r.Header.Get("Authorization") != "Bearer "+apiToken {
		return nil, nil, "the header Authorization is " + r.Header.Get("Authorization")
	}
	for name, want := range s.headers {
		if got := r.Header.Values(name); len(got) != 1 || got[0] != want {
			return nil, nil, fmt.Sprintf("the header %s is %q", name, got)
		}
	}
	for i := range s.calls {
		c := &s.calls[i]
		if c.Method == r.Method && regexp.MustCompile("^"+c.Path+"$").MatchString(r.URL.EscapedPath()) {
			call = c
		}
	}
	if call == nil {
		return nil, nil, "there is no such call"
	}
	for name, values := range r.URL.Query() {
		if re := call.Query[name]; re == "" || len(values) != 1 || !regexp.MustCompile(re).MatchString(values[0]) {
			return nil, nil, fmt.Sprintf("%s is %q", name, values)
		}
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, nil, err.Error()
	}
	if s.published != nil {
		if problem := s.published.problem(r, text); problem != "" {
			return nil, nil, "by what GitHub published, " + problem
		}
	}
	if call.schema == nil {
		if len(text) > 0 {
			return nil, nil, "it has a body"
		}
		return call, nil, ""
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return nil, nil, "the body is " + r.Header.Get("Content-Type")
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err == nil {
		err = call.schema.Validate(document)
	}
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		return nil, nil, err.Error()
	}
	return call, body, ""
}

func (s *standIn) answer(r *http.Request, call *apiCall, body map[string]any) (int, any) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/user"):
		return call.Status, map[string]any{"id": 1, "username": "project_42_bot"}
	case strings.HasSuffix(r.URL.Path, "/check-runs"):
		s.checks = append(s.checks, body)
		return call.Status, map[string]any{"id": len(s.checks), "html_url": "https://forge.example/check/1"}
	case r.Method == "GET":
		size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		list := []any{}
		for i := (page - 1) * size; i < min(page*size, len(s.comments)); i++ {
			list = append(list, s.shown(&s.comments[i]))
		}
		return call.Status, list
	case r.Method == "POST":
		by := "github-actions[bot]"
		if s.gitLab {
			by = "project_42_bot"
		}
		s.comments = append(s.comments, comment{ID: 1000 + len(s.comments), Body: body["body"].(string), By: by})
		return call.Status, s.shown(&s.comments[len(s.comments)-1])
	}
	id, _ := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	for i := range s.comments {
		if c := &s.comments[i]; c.ID == id {
			c.Body = body["body"].(string)
			return call.Status, s.shown(c)
		}
	}
	return http.StatusNotFound, map[string]any{"message": "Not Found"}
}

// shown is a comment as the API shows it.
func (s *standIn) shown(c *comment) map[string]any {
	if s.gitLab {
		return map[string]any{"id": c.ID, "body": c.Body, "author": map[string]any{"username": c.By}, "system": false}
	}
	return map[string]any{"id": c.ID, "body": c.Body, "user": map[string]any{"login": c.By, "type": "Bot"},
		"html_url": fmt.Sprintf("https://forge.example/comment/%d", c.ID)}
}

// ours are the comments by tare.
func (s *standIn) ours() []comment {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []comment
	for _, c := range s.comments {
		if strings.Contains(c.By, "bot") {
			out = append(out, c)
		}
	}
	return out
}

// refuse says which methods and paths the token has no right to from now on, by a regular expression; "": none.
func (s *standIn) refuse(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbid = what
}

// asked are the requests so far.
func (s *standIn) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.said)
}

// seenInArguments returns a command line of a process of this machine that has a text. Only Linux shows them here.
func seenInArguments(text string) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), text) {
			return strings.ReplaceAll(string(b), "\x00", " ")
		}
	}
	return ""
}

// TestStandInHoldsRequestsAgainstTheDescription: what the description does not have is refused.
func TestStandInHoldsRequestsAgainstTheDescription(t *testing.T) {
	s := newStandIn(t, "github.json")
	request := func(method, target, body string, headers ...string) *http.Request {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		all := []string{"Authorization", "Bearer " + apiToken, "Accept", "application/vnd.github+json",
			"X-GitHub-Api-Version", "2022-11-28", "User-Agent", "tare", "Content-Type", "application/json"}
		for i := 0; i < len(all); i += 2 {
			r.Header.Set(all[i], all[i+1])
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return r
	}
	const comments, checks = "/repos/o/r/issues/7/comments", "/repos/o/r/check-runs"
	sha := strings.Repeat("1", 40)
	check := `{"name":"x","head_sha":"` + sha + `","status":"completed","conclusion":"success",` +
		`"output":{"title":"a","summary":"b","annotations":[{"path":"a","start_line":1,"end_line":1,` +
		`"annotation_level":"notice","message":"m"}]}}`
	for _, r := range []*http.Request{request("GET", comments+"?per_page=100&page=2", ""),
		request("POST", comments, `{"body":"x"}`), request("POST", checks, check)} {
		if _, _, problem := s.described(r); problem != "" {
			t.Errorf("%s %s: %s", r.Method, r.URL, problem)
		}
	}
	for name, r := range map[string]*http.Request{
		"a token":       request("GET", comments, "", "Authorization", "Bearer x"),
		"a version":     request("GET", comments, "", "X-GitHub-Api-Version", "1"),
		"a page":        request("GET", comments+"?page=0", ""),
		"a page size":   request("GET", comments+"?per_page=101", ""),
		"a query":       request("GET", comments+"?sort=up", ""),
		"a body":        request("GET", comments, "{}"),
		"a path":        request("GET", "/repos/o/r/issues/x/comments", ""),
		"a method":      request("DELETE", comments, ""),
		"no body":       request("POST", comments, ""),
		"an empty body": request("POST", comments, `{"body":""}`),
		"another key":   request("POST", comments, `{"body":"x","text":"y"}`),
		"a long body":   request("POST", comments, `{"body":"`+strings.Repeat("x", 65537)+`"}`),
		"a type": request("POST", comments, `{"body":"x"}`, "Content-Type",
			"application/x-www-form-urlencoded"),
		"a branch":          request("POST", checks, strings.Replace(check, sha, "main", 1)),
		"a conclusion":      request("POST", checks, strings.Replace(check, `"success"`, `"red"`, 1)),
		"no conclusion":     request("POST", checks, strings.Replace(check, `"conclusion":"success",`, "", 1)),
		"no title":          request("POST", checks, strings.Replace(check, `"title":"a",`, "", 1)),
		"a level":           request("POST", checks, strings.Replace(check, `"notice"`, `"error"`, 1)),
		"a line":            request("POST", checks, strings.Replace(check, `"start_line":1`, `"start_line":0`, 1)),
		"an annotation":     request("POST", checks, strings.Replace(check, `"path":"a",`, "", 1)),
		"an update of none": request("PATCH", "/repos/o/r/issues/comments/x", `{"body":"x"}`),
	} {
		if _, _, problem := s.described(r); problem == "" {
			t.Errorf("%s that the API does not have is taken: %s %s", name, r.Method, r.URL)
		}
	}
}
