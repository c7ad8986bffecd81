package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// openAPI is an OpenAPI description, as far as it bounds requests.
type openAPI struct {
	document any // for the compiler
	paths    map[string]map[string]json.RawMessage
	shared   map[string]parameter // parameters, by reference

	mu       sync.Mutex
	compiled map[string]*jsonschema.Schema // by where it stands
}

type parameter struct {
	Ref      string `json:"$ref"`
	Name, In string
	Required bool
	Schema   json.RawMessage
}

type operation struct {
	Parameters  []parameter
	RequestBody *struct {
		Required bool
		Content  map[string]json.RawMessage
	} `json:"requestBody"`
}

// readOpenAPI reads a description once for all tests.
var readOpenAPI = sync.OnceValues(func() (*openAPI, error) {
	text, err := os.ReadFile(os.Getenv("TARE_GITHUB_API"))
	if err != nil {
		return nil, err
	}
	var d struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Parameters map[string]parameter }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	a := &openAPI{paths: d.Paths, shared: map[string]parameter{}, compiled: map[string]*jsonschema.Schema{}}
	for name, p := range d.Components.Parameters {
		a.shared["#/components/parameters/"+name] = p
	}
	a.document, err = jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	return a, err
})

// publishedAPI is GitHub's published description, which scripts/deps.sh fetches.
func publishedAPI(t *testing.T) *openAPI {
	t.Helper()
	if os.Getenv("TARE_GITHUB_API") == "" {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("there is no description of GitHub's API (scripts/deps.sh github-api), and TARE_REQUIRE is set")
		}
		return nil
	}
	a, err := readOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// schema compiles the schema at a place of the description.
func (a *openAPI) schema(pointer ...string) (*jsonschema.Schema, error) {
	var at strings.Builder
	at.WriteString("mem:api#")
	for _, p := range pointer {
		at.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(p))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.compiled[at.String()]; s != nil {
		return s, nil
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:api", a.document); err != nil {
		return nil, err
	}
	s, err := c.Compile(at.String())
	a.compiled[at.String()] = s
	return s, err
}

// problem says what of a request is not as described; "" if all is.
func (a *openAPI) problem(r *http.Request, body []byte) string {
	path, values := a.path(r.URL.Path)
	text := a.paths[path][strings.ToLower(r.Method)]
	if text == nil {
		return "there is no such call"
	}
	var op operation
	if err := json.Unmarshal(text, &op); err != nil {
		return err.Error()
	}
	known := map[string]bool{}
	for _, p := range op.Parameters {
		if p.Ref != "" {
			p = a.shared[p.Ref]
		}
		value, given := values[p.Name], true
		if p.In == "query" {
			known[p.Name] = true
			value, given = r.URL.Query().Get(p.Name), r.URL.Query().Has(p.Name)
		}
		if !given && p.Required {
			return "the query lacks " + p.Name
		}
		var schema struct{ Type string }
		if err := json.Unmarshal(p.Schema, &schema); err != nil {
			return err.Error()
		}
		if given && schema.Type == "integer" && !regexp.MustCompile(`^[0-9]+$`).MatchString(value) {
			return fmt.Sprintf("%s is %q", p.Name, value)
		}
	}
	for name := range r.URL.Query() {
		if !known[name] {
			return "the query has " + name
		}
	}
	const kind = "application/json"
	switch {
	case op.RequestBody == nil || len(body) == 0 && !op.RequestBody.Required:
		if len(body) > 0 {
			return "it has a body"
		}
		return ""
	case op.RequestBody.Content[kind] == nil:
		return "the body is not JSON"
	}
	s, err := a.schema("paths", path, strings.ToLower(r.Method), "requestBody", "content", kind, "schema")
	if err != nil {
		return err.Error()
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(body)))
	if err == nil {
		err = s.Validate(document)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// path finds the template that a path is made of, with the values of its parts. A part that is written out goes first.
func (a *openAPI) path(of string) (template string, values map[string]string) {
	parts, best := strings.Split(of, "/"), -1
	for t := range a.paths {
		named, written := map[string]string{}, 0
		pieces := strings.Split(t, "/")
		if len(pieces) != len(parts) {
			continue
		}
		for i, p := range pieces {
			switch {
			case strings.HasPrefix(p, "{"):
				named[strings.Trim(p, "{}")] = parts[i]
			case p == parts[i]:
				written++
			default:
				written = -len(parts)
			}
		}
		if written > best {
			template, values, best = t, named, written
		}
	}
	return template, values
}

// TestRequestsAgainstWhatGitHubPublished: the check itself can say no.
func TestRequestsAgainstWhatGitHubPublished(t *testing.T) {
	a := publishedAPI(t)
	if a == nil {
		t.Skip("there is no description of GitHub's API; scripts/deps.sh github-api fetches it")
	}
	const comments, checks = "/repos/o/r/issues/7/comments", "/repos/o/r/check-runs"
	const check = `{"name":"x","head_sha":"1","status":"completed","conclusion":"success"}`
	for name, c := range map[string]struct {
		method, target, body string
		fits                 bool
	}{
		"comments":     {"GET", comments + "?per_page=100&page=2", "", true},
		"a comment":    {"POST", comments, `{"body":"x"}`, true},
		"a check":      {"POST", checks, check, true},
		"another call": {"PUT", comments, `{"body":"x"}`, false},
		"a query":      {"GET", comments + "?sort=up", "", false},
		"a page":       {"GET", comments + "?page=two", "", false},
		"no issue":     {"GET", "/repos/o/r/issues/x/comments", "", false},
		"no body":      {"POST", comments, `{}`, false},
		"a number":     {"POST", comments, `{"body":7}`, false},
		"a conclusion": {"POST", checks, strings.Replace(check, "success", "red", 1), false},
		"no commit":    {"POST", checks, strings.Replace(check, `"head_sha":"1",`, "", 1), false},
	} {
		problem := a.problem(httptest.NewRequest(c.method, c.target, nil), []byte(c.body))
		if (problem == "") != c.fits {
			t.Errorf("%s: %q", name, problem)
		}
	}
}
