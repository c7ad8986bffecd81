// Package forge reads the change that a CI system's job is for, and reports the result to GitHub and GitLab: as a
// comment that is updated in place, and as a check.
//
// It is opinionated about tokens: it never has one. It opens no connection either. It writes each request as a
// configuration for curl and reads the answer, and a script in between only transports. Its input, the event, the
// answers and its own notes between two requests, comes from others and is bounded.
package forge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// The CI systems that are told apart.
const (
	Actions = "github-actions"
	GitLab  = "gitlab-ci"
	Jenkins = "jenkins"
)

// The forges that can be told.
const (
	forgeGitHub = "github"
	forgeGitLab = "gitlab"
)

// maxEvent bounds an event, in bytes. GitHub's are below 25 MB.
const maxEvent = 32 << 20

// Change is a pull request, a merge request or a push, as a CI system describes it.
type Change struct {
	System string `json:"system"` // Actions, GitLab, Jenkins; "" for none
	Forge  string `json:"forge"`  // where it can be commented on: "github", "gitlab"; "" for nowhere
	// API is the address of the forge's API without a slash at its end; "" if it is not known.
	API     string `json:"api"`
	Project string `json:"project"` // "owner/name"; of GitLab a number or "group/name"
	Number  int    `json:"number"`  // of the pull request; 0 for none
	// Base and Head are revisions as the system names them, and full commits as soon as they are resolved.
	Base string `json:"base"`
	Head string `json:"head"`
	// Commit is the one that a check belongs to; "" for none.
	Commit string `json:"commit"`
	Link   string `json:"link"` // of the CI system's run; "" for none
	// Processor is the model of the machine that this was made on.
	Processor string `json:"processor"`
}

// Key names the history that the runs belong to.
func (c *Change) Key() string {
	switch {
	case c.Project == "":
		return "local"
	case c.Number == 0:
		return c.Forge + ":" + c.Project
	}
	return fmt.Sprintf("%s:%s#%d", c.Forge, c.Project, c.Number)
}

// Title names the change for people.
func (c *Change) Title() string {
	switch {
	case c.Number == 0:
		return "this change"
	case c.Forge == forgeGitLab:
		return "merge request " + strconv.Itoa(c.Number)
	}
	return "pull request " + strconv.Itoa(c.Number)
}

// Detect reads the CI system's description of its job: variables, and GitHub's file with the event. Outside of CI
// systems nothing is known, which is no error. The error of one in a CI system names the missing part.
func Detect(getenv func(string) string, open func(name string) (io.ReadCloser, error)) (*Change, error) {
	var c *Change
	var err error
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		c, err = actions(getenv, open)
	case getenv("GITLAB_CI") == "true":
		c, err = gitLab(getenv)
	case getenv("JENKINS_URL") != "":
		c, err = jenkins(getenv)
	default:
		return &Change{}, nil
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// event has the fields that are read of GitHub's file. Missing ones stay empty.
type event struct {
	PullRequest *struct {
		Number int  `json:"number"`
		Base   side `json:"base"`
		Head   side `json:"head"`
	} `json:"pull_request"`
	MergeGroup *struct {
		Base string `json:"base_sha"`
		Head string `json:"head_sha"`
	} `json:"merge_group"`
	Before string `json:"before"` // of a push
	After  string `json:"after"`
}

type side struct {
	SHA string `json:"sha"`
}

func actions(getenv func(string) string, open func(name string) (io.ReadCloser, error)) (*Change, error) {
	c := &Change{System: Actions, Forge: forgeGitHub, API: strings.TrimRight(getenv("GITHUB_API_URL"), "/"),
		Project: getenv("GITHUB_REPOSITORY")}
	if run := getenv("GITHUB_RUN_ID"); run != "" {
		c.Link = getenv("GITHUB_SERVER_URL") + "/" + c.Project + "/actions/runs/" + run
	}
	name := getenv("GITHUB_EVENT_NAME")
	if name == "pull_request_target" {
		return nil, errors.New("the event pull_request_target gives the code of any pull request the secrets of this " +
			"repository; use the event pull_request (docs/pull-requests.md)")
	}
	f, err := open(getenv("GITHUB_EVENT_PATH"))
	if err != nil {
		return nil, fmt.Errorf("read GitHub's event (GITHUB_EVENT_PATH): %w", err)
	}
	defer f.Close()
	e, err := readEvent(f)
	if err != nil {
		return nil, fmt.Errorf("read GitHub's event %s: %w", name, err)
	}
	switch {
	case e.PullRequest != nil:
		p := e.PullRequest
		c.Number, c.Base, c.Head, c.Commit = p.Number, p.Base.SHA, p.Head.SHA, p.Head.SHA
	case e.MergeGroup != nil:
		c.Base, c.Head, c.Commit = e.MergeGroup.Base, e.MergeGroup.Head, e.MergeGroup.Head
	case e.After != "":
		c.Head, c.Commit = e.After, e.After
		if strings.Trim(e.Before, "0") != "" { // zeros: a branch that is new
			c.Base = e.Before
		}
	}
	return c, nil
}

func readEvent(r io.Reader) (*event, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxEvent+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxEvent {
		return nil, fmt.Errorf("it is longer than %d MiB, the most that is read", maxEvent>>20)
	}
	var e event
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	return &e, nil
}

func gitLab(getenv func(string) string) (*Change, error) {
	c := &Change{System: GitLab, Forge: forgeGitLab, API: strings.TrimRight(getenv("CI_API_V4_URL"), "/"),
		Project: getenv("CI_MERGE_REQUEST_PROJECT_ID"), Base: getenv("CI_MERGE_REQUEST_DIFF_BASE_SHA"),
		Head: getenv("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"), Commit: getenv("CI_COMMIT_SHA"), Link: getenv("CI_JOB_URL")}
	if c.Head == "" { // it is there in pipelines for merged results only
		c.Head = c.Commit
	}
	if iid := getenv("CI_MERGE_REQUEST_IID"); iid != "" {
		n, err := strconv.Atoi(iid)
		if err != nil {
			return nil, fmt.Errorf("CI_MERGE_REQUEST_IID is %q, which is no number", iid)
		}
		c.Number = n
		return c, nil
	}
	c.Project = getenv("CI_PROJECT_ID")
	if before := getenv("CI_COMMIT_BEFORE_SHA"); c.Base == "" && strings.Trim(before, "0") != "" {
		c.Base = before
	}
	return c, nil
}

// changeURL takes the address of a pull request or of a merge request apart.
var changeURL = regexp.MustCompile(`^(https?://[^/]+)/(.+?)(/pull/|/-/merge_requests/)([0-9]+)$`)

// jenkins reads the variables of the plugins for branch sources.
func jenkins(getenv func(string) string) (*Change, error) {
	c := &Change{System: Jenkins, Head: getenv("GIT_COMMIT"), Link: getenv("BUILD_URL")}
	if target := getenv("CHANGE_TARGET"); target != "" {
		c.Base = "origin/" + target
	}
	if c.Head == "" {
		c.Head = "HEAD"
	}
	m := changeURL.FindStringSubmatch(getenv("CHANGE_URL"))
	if m == nil {
		return c, nil
	}
	n, err := strconv.Atoi(m[4])
	if err != nil {
		return nil, fmt.Errorf("CHANGE_URL ends in %q, which is no number", m[4])
	}
	c.Number, c.Project = n, m[2]
	switch {
	case m[3] != "/pull/":
		c.Forge, c.API = forgeGitLab, m[1]+"/api/v4"
	case m[1] == "https://github.com":
		c.Forge, c.API = forgeGitHub, "https://api.github.com"
	default:
		c.Forge, c.API = forgeGitHub, m[1]+"/api/v3"
	}
	if api := strings.TrimRight(getenv("TARE_API"), "/"); api != "" {
		c.API = api
	}
	return c, nil
}

var (
	ownerAndName = regexp.MustCompile(`^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$`)
	gitLabPath   = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`)
	linkText     = regexp.MustCompile(`^https?://[A-Za-z0-9._~:/?#@!$&'*+,;=%\[\]-]+$`)
	fullCommit   = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)
)

// IsCommit tells whether a text is the name of a commit in full.
func IsCommit(s string) bool { return fullCommit.MatchString(s) }

// check refuses characters that could mean something else where the text is used.
func (c *Change) check() error {
	project := ownerAndName
	if c.Forge == forgeGitLab {
		project = gitLabPath
	}
	if c.Forge != "" && c.Project != "" && (!project.MatchString(c.Project) || strings.Contains(c.Project, "..")) {
		return fmt.Errorf("%q is no name of a project", c.Project)
	}
	if c.Number < 0 {
		return fmt.Errorf("%d is no number of a pull request", c.Number)
	}
	if !linkText.MatchString(c.Link) {
		c.Link = "" // it is shown only
	}
	if c.Commit != "" && !IsCommit(c.Commit) {
		return fmt.Errorf("%q is no commit", c.Commit)
	}
	if c.API == "" {
		return nil
	}
	u, err := url.Parse(c.API)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		!linkText.MatchString(c.API) {
		return errors.New("the address of the API is no plain URL, such as https://api.github.com")
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return fmt.Errorf("the address of the API is %s: a token travels over https only", c.API)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
