package forge

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
)

const mark = "<!-- tare pull tare -->"

var pull = Change{System: Actions, Forge: "github", API: "https://api.github.com", Project: "some/thing", Number: 7,
	Commit: sha2}

// said are the notes of a conversation; those about what could not be told begin with an exclamation mark.
func said(t *Talk) string {
	var out []string
	for _, n := range t.Notes {
		text := n.Text
		if n.Lack {
			text = "! " + text
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

// exchange is an answer to a request.
type exchange struct {
	asked  string // METHOD URL
	status int
	body   string
}

// hold holds a conversation, and keeps it in its JSON form between two requests, as the command does.
func hold(t *testing.T, begin Talk, c *Change, all []exchange) *Talk {
	t.Helper()
	talk := &begin
	var notes []Note
	for i, x := range all {
		r := talk.Next(c, "dir")
		if r == nil || r.Method+" "+r.URL != x.asked {
			t.Fatalf("request %d is %+v, want %s\n%s", i, r, x.asked, said(talk))
		}
		text, err := json.Marshal(talk)
		if err != nil {
			t.Fatal(err)
		}
		notes = append(notes, talk.Notes...)
		if talk, err = ReadTalk(strings.NewReader(string(text))); err != nil {
			t.Fatal(err)
		}
		var body io.Reader
		if x.status > 0 {
			body = strings.NewReader(x.body)
		}
		talk.Answer(c, x.status, body)
	}
	if r := talk.Next(c, "dir"); r != nil {
		t.Fatalf("there is one more request: %+v", r)
	}
	talk.Notes = append(notes, talk.Notes...)
	return talk
}

// page makes a page of comments by people, with more at its end.
func page(count int, more ...string) string {
	var all []string
	for i := range count - len(more) {
		all = append(all, fmt.Sprintf(`{"id":%d,"body":"hello","user":{"login":"somebody"}}`, i+1))
	}
	return "[" + strings.Join(append(all, more...), ",") + "]"
}

func ours(id int, by string) string {
	return fmt.Sprintf(`{"id":%d,"body":"%s\r\nwords","user":{"login":"%s"}}`, id, mark, by)
}

func TestConversations(t *testing.T) {
	const list = "GET https://api.github.com/repos/some/thing/issues/7/comments?per_page=100&page=%d"
	const create = "POST https://api.github.com/repos/some/thing/issues/7/comments"
	const update = "PATCH https://api.github.com/repos/some/thing/issues/comments/99"
	const check = "POST https://api.github.com/repos/some/thing/check-runs"
	first, second := fmt.Sprintf(list, 1), fmt.Sprintf(list, 2)
	begin := Talk{Marker: mark, Comment: true, Check: true}
	made := exchange{check, 201, `{"id":1,"html_url":"https://github.com/c"}`}
	forbidden := `{"message":"Resource not accessible by integration"}`
	for name, c := range map[string]struct {
		begin  Talk
		change Change
		all    []exchange
		said   string
	}{
		"a first comment": {begin, pull, []exchange{{first, 200, page(3)},
			{create, 201, `{"id":5,"html_url":"https://github.com/x","user":{"login":"github-actions[bot]"}}`}, made},
			"pull request 7 has a comment: https://github.com/x\nthe check is made"},
		"updated": {begin, pull, []exchange{{first, 200, page(4, ours(99, "GitHub-Actions[bot]"))},
			{update, 200, `{"id":99,"html_url":"https://github.com/x"}`}, made},
			"the comment on pull request 7 is updated"},
		"on the second page": {begin, pull, []exchange{{first, 200, page(100)},
			{second, 200, page(4, ours(99, "github-actions[bot]"))}, {update, 200, `{"id":99}`}, made}, "is updated"},
		"a full last page": {begin, pull, []exchange{{first, 200, page(100)}, {second, 200, "[]"},
			{create, 201, `{"id":5}`}, made}, "has a comment"},
		"a stranger's comment with the marker": {begin, pull, []exchange{
			{first, 200, page(4, ours(99, "mallory"))}, {create, 201, `{"id":5}`}, made}, "has a comment"},
		"deleted meanwhile": {begin, pull, []exchange{{first, 200, page(4, ours(99, "github-actions[bot]"))},
			{update, 404, `{"message":"Not Found"}`}, {create, 201, `{"id":5}`}, made}, "has a comment"},
		"by another author": {Talk{Marker: mark, Comment: true, Author: "robot"}, pull, []exchange{
			{first, 200, page(4, ours(99, "robot"))}, {update, 200, `{"id":99}`}}, "is updated"},
		"an author that is not known": {begin, pull, []exchange{{first, 200, page(2)},
			{create, 201, `{"id":5,"user":{"login":"robot"}}`}, made}, "comment-author: robot"},
		"no right to comment": {begin, pull, []exchange{{first, 200, page(2)}, {create, 403, forbidden}, made},
			"! no comment on pull request 7: the API refuses it (status 403: Resource not accessible by " +
				"integration); " +
				"give the job the permission `pull-requests: write`"},
		"no right to anything": {begin, pull, []exchange{{first, 404, `{"message":"Not Found"}`}, {check, 403,
			forbidden}},
			"! no check: the API refuses it (status 403: Resource not accessible by integration)"},
		"no connection": {begin, pull, []exchange{{first, 0, ""}, {check, 0, ""}},
			"! no check: the API refuses it (no answer)"},
		"no JSON": {begin, pull, []exchange{{first, 200, "<html>"}, made},
			"! the API's answer cannot be read"},
		"no comment asked for": {Talk{Marker: mark, Check: true}, pull, []exchange{made}, "the check is made"},
		"a push": {begin, Change{System: Actions, Forge: "github", API: pull.API, Project: pull.Project, Commit: sha2},
			[]exchange{made}, "! no comment: this run is for no pull request"},
		"nowhere": {begin, Change{}, nil, "! no comment: this run is for no pull request"},
		"Jenkins makes no check": {begin, Change{System: Jenkins, Forge: "github", API: pull.API, Project: pull.Project,
			Number: 7}, []exchange{{first, 200, page(2)}, {create, 201, `{"id":5}`}}, "has a comment"},
	} {
		t.Run(name, func(t *testing.T) {
			talk := hold(t, c.begin, &c.change, c.all)
			if !strings.Contains(said(talk), c.said) {
				t.Errorf("it says\n%s\nwant\n%s", said(talk), c.said)
			}
			if checked := strings.Contains(said(talk), "the check is made"); talk.Checked != checked {
				t.Errorf("checked is %v", talk.Checked)
			}
		})
	}
}

func TestConversationsWithGitLab(t *testing.T) {
	c := Change{System: GitLab, Forge: "gitlab", API: "https://git.example/api/v4", Project: "a/b", Number: 3}
	const notes = "https://git.example/api/v4/projects/a%2Fb/merge_requests/3/notes"
	begin := Talk{Marker: mark, Comment: true, Check: true}
	who := exchange{"GET https://git.example/api/v4/user", 200, `{"id":1,"username":"project_1_bot"}`}
	note := `{"id":99,"body":"` + mark + `\nwords","author":{"username":"project_1_bot"}}`
	hold(t, begin, &c, []exchange{who, {"GET " + notes + "?per_page=100&page=1", 200, "[" + note + "]"},
		{"PUT " + notes + "/99", 200, note}})
	hold(t, begin, &c, []exchange{who, {"GET " + notes + "?per_page=100&page=1", 200, "[]"},
		{"POST " + notes, 201, note}})
	talk := hold(t, begin, &c, []exchange{{who.asked, 401, `{"message":"401 Unauthorized"}`}})
	if !strings.Contains(said(talk),
		"! no comment on merge request 3: the token is of nobody (status 401: 401 Unauth") {
		t.Error(said(talk))
	}
	talk = hold(t, begin, &c, []exchange{who, {"GET " + notes + "?per_page=100&page=1", 200, "[]"},
		{"POST " + notes, 403, `{"message":{"base":["no"]}}`}})
	if !strings.Contains(said(talk), `status 403: {"base":["no"]}`) || !strings.Contains(said(talk), "scope api") {
		t.Error(said(talk))
	}
}

// TestPagesEnd: however many comments there are, the conversation ends.
func TestPagesEnd(t *testing.T) {
	talk := &Talk{Marker: mark, Comment: true}
	requests := 0
	for r := talk.Next(&pull, "dir"); r != nil; r = talk.Next(&pull, "dir") {
		if requests++; requests > mostPages+1 {
			t.Fatal("it goes on")
		}
		talk.Answer(&pull, 200, strings.NewReader(page(100)))
	}
}

func TestCurl(t *testing.T) {
	got := (&Request{Method: "POST", URL: "https://x/y", Body: `a"b\c` + "\nurl = z", Output: "o",
		Headers: []string{"A: b"}}).Curl()
	want := `url = "https://x/y"
request = "POST"
header = "A: b"
data-binary = "@a\"b\\c\nurl = z"
output = "o"
max-time = 60
max-filesize = 67108864
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// FuzzTalk: no answer and no file of notes leads anywhere but to this API, or to a conversation without end.
func FuzzTalk(f *testing.F) {
	f.Add(200, page(3, ours(99, "github-actions[bot]")), `{"stage":"list","comment":true,"page":1}`)
	f.Add(404, `{"message":{"a":1}}`, `{"stage":"update","id":5}`)
	f.Add(0, "", `{"stage":"check","page":31}`)
	f.Add(200, `[{"id":-1}]`, `{"stage":"x"}`)
	f.Fuzz(func(t *testing.T, status int, body, kept string) {
		talk, err := ReadTalk(strings.NewReader(kept))
		if err != nil {
			return
		}
		for range mostPages + 5 {
			talk.Answer(&pull, status, strings.NewReader(body))
			r := talk.Next(&pull, "dir")
			if r == nil {
				return
			}
			if !strings.HasPrefix(r.URL, pull.API+"/repos/some/thing/") && r.URL != pull.API+"/user" ||
				strings.Count(r.Curl(), "\n") > 12 {
				t.Fatalf("%+v", r)
			}
		}
		t.Fatal("it goes on")
	})
}
