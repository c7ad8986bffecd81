package forge

import (
	"errors"
	"io"
	"strings"
	"testing"
)

const (
	sha1 = "1111111111111111111111111111111111111111"
	sha2 = "2222222222222222222222222222222222222222"
	none = "0000000000000000000000000000000000000000"
)

// detect is Detect with variables, and the text of the event.
func detect(event string, variables ...string) (*Change, error) {
	of := map[string]string{}
	for i := 0; i < len(variables); i += 2 {
		of[variables[i]] = variables[i+1]
	}
	return Detect(func(name string) string { return of[name] }, func(name string) (io.ReadCloser, error) {
		if name == "" {
			return nil, errors.New("no file")
		}
		return io.NopCloser(strings.NewReader(event)), nil
	})
}

// github are the variables of a job of GitHub Actions, and more.
func github(more ...string) []string {
	return append([]string{"GITHUB_ACTIONS", "true", "GITHUB_EVENT_PATH", "event.json", "GITHUB_EVENT_NAME",
		"pull_request",
		"GITHUB_API_URL", "https://api.github.com", "GITHUB_SERVER_URL", "https://github.com",
		"GITHUB_REPOSITORY", "some/thing", "GITHUB_RUN_ID", "12"}, more...)
}

const pullEvent = `{"number":7,"pull_request":{"number":7,"title":"x","base":{"sha":"` + sha1 + `"},"head":{"sha":"` +
	sha2 + `"}}}`

func TestDetect(t *testing.T) {
	for name, c := range map[string]struct {
		event     string
		variables []string
		want      Change
		key       string
	}{
		"none": {"", nil, Change{}, "local"},
		"pull request": {pullEvent, github(), Change{System: Actions, Forge: "github", API: "https://api.github.com",
			Project: "some/thing", Number: 7, Base: sha1, Head: sha2, Commit: sha2,
			Link: "https://github.com/some/thing/actions/runs/12"}, "github:some/thing#7"},
		"push": {`{"before":"` + sha1 + `","after":"` + sha2 + `"}`, github(), Change{System: Actions, Forge: "github",
			API: "https://api.github.com", Project: "some/thing", Base: sha1, Head: sha2, Commit: sha2,
			Link: "https://github.com/some/thing/actions/runs/12"}, "github:some/thing"},
		"new branch": {`{"before":"` + none + `","after":"` + sha2 + `"}`, github(), Change{System: Actions,
			Forge: "github", API: "https://api.github.com", Project: "some/thing", Head: sha2, Commit: sha2,
			Link: "https://github.com/some/thing/actions/runs/12"}, "github:some/thing"},
		"merge group": {`{"merge_group":{"base_sha":"` + sha1 + `","head_sha":"` + sha2 + `"}}`, github(),
			Change{System: Actions, Forge: "github", API: "https://api.github.com", Project: "some/thing", Base: sha1,
				Head: sha2, Commit: sha2, Link: "https://github.com/some/thing/actions/runs/12"}, "github:some/thing"},
		"GitLab": {"", []string{"GITLAB_CI", "true", "CI_API_V4_URL", "https://gitlab.example/api/v4",
			"CI_MERGE_REQUEST_PROJECT_ID", "42", "CI_MERGE_REQUEST_IID", "3", "CI_MERGE_REQUEST_DIFF_BASE_SHA", sha1,
			"CI_COMMIT_SHA", sha2, "CI_JOB_URL", "https://gitlab.example/a/b/-/jobs/1"}, Change{System: GitLab,
			Forge: "gitlab", API: "https://gitlab.example/api/v4", Project: "42", Number: 3, Base: sha1, Head: sha2,
			Commit: sha2, Link: "https://gitlab.example/a/b/-/jobs/1"}, "gitlab:42#3"},
		"Jenkins and GitHub": {"", []string{"JENKINS_URL", "https://ci.example/", "CHANGE_TARGET", "main", "GIT_COMMIT",
			sha2, "CHANGE_URL", "https://github.com/some/thing/pull/7", "BUILD_URL", "https://ci.example/job/1/"},
			Change{System: Jenkins, Forge: "github", API: "https://api.github.com", Project: "some/thing", Number: 7,
				Base: "origin/main", Head: sha2, Link: "https://ci.example/job/1/"}, "github:some/thing#7"},
		"Jenkins and an own GitLab": {"", []string{"JENKINS_URL", "https://ci.example/", "CHANGE_TARGET", "main",
			"CHANGE_URL", "https://git.example/a/b/c/-/merge_requests/9"}, Change{System: Jenkins, Forge: "gitlab",
			API: "https://git.example/api/v4", Project: "a/b/c", Number: 9, Base: "origin/main", Head: "HEAD"},
			"gitlab:a/b/c#9"},
		"Jenkins without a pull request": {"", []string{"JENKINS_URL", "https://ci.example/", "BUILD_URL",
			"javascript:alert(1)"}, Change{System: Jenkins, Head: "HEAD"}, "local"},
	} {
		got, err := detect(c.event, c.variables...)
		if err != nil || *got != c.want || got.Key() != c.key {
			t.Errorf("%s: %+v, %v; want %+v and %s", name, got, err, c.want, c.key)
		}
	}
	for want, c := range map[string]struct {
		event     string
		variables []string
	}{
		"secrets":            {pullEvent, github("GITHUB_EVENT_NAME", "pull_request_target")},
		"GITHUB_EVENT_PATH":  {"", github("GITHUB_EVENT_PATH", "")},
		"unexpected end":     {"{", github()},
		"is no name of a":    {pullEvent, github("GITHUB_REPOSITORY", "some/../thing")},
		"is no plain URL":    {pullEvent, github("GITHUB_API_URL", `https://api.github.com/"`)},
		"travels over https": {pullEvent, github("GITHUB_API_URL", "http://api.github.com")},
		"is no commit":       {strings.Replace(pullEvent, sha2, "--upload-pack=x", 1), github()},
		"no number of a":     {strings.Replace(pullEvent, `{"number":7,"t`, `{"number":-7,"t`, 1), github()},
		"which is no number": {"", []string{"GITLAB_CI", "true", "CI_MERGE_REQUEST_IID", "x"}},
		"name of a project":  {"", []string{"GITLAB_CI", "true", "CI_PROJECT_ID", "a b"}},
		"longer than 32 MiB": {strings.Repeat(" ", maxEvent+1), github()},
		"plain URL, such as": {pullEvent, github("GITHUB_API_URL", "https://u:p@x.example")},
	} {
		if got, err := detect(c.event, c.variables...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %+v", want, err, got)
		}
	}
	// A stand-in on this machine may be spoken to in clear.
	if _, err := detect(pullEvent, github("GITHUB_API_URL", "http://127.0.0.1:8080")...); err != nil {
		t.Error(err)
	}
}

func FuzzDetect(f *testing.F) {
	f.Add(pullEvent, "some/thing", "https://api.github.com")
	f.Add(`{"merge_group":{"base_sha":1}}`, "some/thing", "http://[::1]:80")
	f.Add(`{"pull_request":{"number":1e99}}`, "a\nb/c", "https://x/\nheader = y")
	f.Fuzz(func(t *testing.T, event, project, api string) {
		c, err := detect(event, github("GITHUB_REPOSITORY", project, "GITHUB_API_URL", api)...)
		if err != nil {
			return
		}
		for _, text := range []string{c.API, c.Project, c.Link, c.Commit} {
			if strings.ContainsAny(text, "\n\r\" \\<>") {
				t.Errorf("%q is taken", text)
			}
		}
	})
}
