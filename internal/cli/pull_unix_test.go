//go:build unix

package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// action is action.yml, as far as it is run here.
type action struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Using string
		Steps []struct {
			ID, Name, Shell, Run, Uses, If string
			Env                            map[string]string
		}
	}
}

func readAction(t *testing.T) *action {
	t.Helper()
	text, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	return &a
}

// runner carries out the action as GitHub's runner does: its steps one after the other, with the environment, the
// shell and the files that the runner gives them. A cache is a folder that stays.
type runner struct {
	t       *testing.T
	action  *action
	dir     string // of the runner's own files; it stays from run to run, as the cache does
	work    string // the checkout
	api     string
	event   string // the file
	inputs  map[string]string
	only    string // the name of the only step to run
	outputs map[string]string
	said    map[string]string // by the step's name
	codes   map[string]int
	summary string
}

var expression = regexp.MustCompile(`\$\{\{ *([a-z0-9._-]+) *\}\}`)

// value puts in what expressions stand for.
func (r *runner) value(text string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string {
		name := expression.FindStringSubmatch(e)[1]
		switch {
		case name == "github.token":
			return apiToken
		case strings.HasPrefix(name, "inputs."):
			name = strings.TrimPrefix(name, "inputs.")
			if v, ok := r.inputs[name]; ok {
				return v
			}
			if _, ok := r.action.Inputs[name]; !ok {
				r.t.Fatalf("action.yml has no input %s", name)
			}
			return r.value(r.action.Inputs[name].Default)
		case strings.HasPrefix(name, "steps."):
			return r.outputs[name]
		}
		r.t.Fatalf("the runner of this test does not know %s", e)
		return ""
	})
}

// run carries the action out and returns the exit code of the step that ends it.
func (r *runner) run() int {
	r.t.Helper()
	if r.outputs == nil {
		r.outputs = map[string]string{}
	}
	r.said, r.codes = map[string]string{}, map[string]int{}
	summary := filepath.Join(r.dir, "summary.md")
	os.Remove(summary) // each run has its own
	last := 0
	for _, s := range r.action.Runs.Steps {
		if s.Run == "" || r.only != "" && s.Name != r.only {
			continue
		}
		if last != 0 && !strings.Contains(s.If, "always()") {
			break
		}
		output := filepath.Join(r.dir, "output")
		if err := os.WriteFile(output, nil, 0o600); err != nil {
			r.t.Fatal(err)
		}
		script := filepath.Join(r.dir, "step.sh")
		if err := os.WriteFile(script, []byte(s.Run), 0o600); err != nil {
			r.t.Fatal(err)
		}
		cmd := exec.CommandContext(r.t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", script)
		cmd.Dir = r.work
		root, err := filepath.Abs("../..")
		if err != nil {
			r.t.Fatal(err)
		}
		cmd.Env = append(plainEnvironment(r.t), "GITHUB_ACTIONS=true", "GITHUB_ACTION_PATH="+root,
			"GITHUB_OUTPUT="+output,
			"GITHUB_STEP_SUMMARY="+summary, "GITHUB_EVENT_PATH="+r.event, "GITHUB_EVENT_NAME=pull_request",
			"GITHUB_REPOSITORY=some/thing", "GITHUB_API_URL="+r.api, "GITHUB_SERVER_URL=https://forge.example",
			"GITHUB_RUN_ID=12", "RUNNER_TEMP="+r.dir, "HOME="+r.dir, "TMPDIR="+r.dir)
		for name, v := range s.Env {
			cmd.Env = append(cmd.Env, name+"="+r.value(v))
		}
		if s.Env["TARE_TOKEN"] == "" && strings.Contains(strings.Join(cmd.Env, "\n"), apiToken) {
			r.t.Errorf("the step %q has the token", s.Name)
		}
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		err = cmd.Run()
		code := cmd.ProcessState.ExitCode()
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			r.t.Fatal(err)
		}
		r.said[s.Name], r.codes[s.Name] = said.String(), code
		if last == 0 {
			last = code
		}
		text, err := os.ReadFile(output)
		if err != nil {
			r.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			name, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			r.outputs["steps."+s.ID+".outputs."+name] = v
		}
	}
	text, _ := os.ReadFile(summary) // without one it is empty
	r.summary = string(text)
	return last
}

// plainEnvironment is that of these tests without what a CI system may have set.
func plainEnvironment(t *testing.T) []string {
	t.Helper()
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		for _, prefix := range []string{"GITHUB_", "GITLAB_", "CI_", "CI=", "JENKINS_", "CHANGE_", "TARE_", "RUNNER_",
			"GIT_"} {
			if strings.HasPrefix(kv, prefix) {
				return true
			}
		}
		return false
	})
	return append(env, "PATH="+filepath.Dir(tareBinary)+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// git runs git in a folder and returns what it prints.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(plainEnvironment(t), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.invalid", "GIT_COMMITTER_NAME=t",
		"GIT_COMMITTER_EMAIL=t@example.invalid")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Names and titles that strangers choose.
const (
	evilBranch = "x;touch${IFS}pwned;@everyone"
	evilTitle  = "`touch pwned` $(touch pwned) <img src=x onerror=alert(1)> @everyone\n::error::x"
)

// pullRepository makes a repository with a pull request: base, head, and a branch that goes on after they parted. build
// is what head's build.sh does. It returns the repository and the commits.
func pullRepository(t *testing.T, build string) (repo, base, tip, head string) {
	t.Helper()
	repo = filepath.Join(t.TempDir(), "origin")
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(repo, "build.sh"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := func(seconds string) string {
		return "printf '#!/bin/sh\\nsleep " + seconds + "\\n' >bench && chmod +x bench\n"
	}
	git(t, t.TempDir(), "init", "-q", "-b", "main", repo)
	write(program("0.15"))
	git(t, repo, "add", ".")
	git(t, repo, "commit", "-q", "-m", "base")
	base = git(t, repo, "rev-parse", "HEAD")
	// Against this one nothing would be slower: it is not what head is compared with.
	write(program("2"))
	git(t, repo, "commit", "-q", "-a", "-m", "tip")
	tip = git(t, repo, "rev-parse", "HEAD")
	git(t, repo, "checkout", "-q", "-b", evilBranch, base)
	if build == "" {
		build = program("0.9") // so much that no noise of a busy machine hides it
	}
	write(build)
	git(t, repo, "commit", "-q", "-a", "-m", "head")
	return repo, base, tip, git(t, repo, "rev-parse", "HEAD")
}

// checkOut makes what actions/checkout makes: one commit, detached.
func checkOut(t *testing.T, repo, commit string, more ...string) string {
	t.Helper()
	work := filepath.Join(t.TempDir(), "work")
	git(t, t.TempDir(), append(append([]string{"clone", "-q", "--no-checkout"}, more...), "file://"+repo, work)...)
	git(t, work, "checkout", "-q", "--detach", commit)
	return work
}

// newRunner is a runner for a pull request of a repository.
func newRunner(t *testing.T, work, api, base, head string) *runner {
	t.Helper()
	r := &runner{t: t, action: readAction(t), dir: t.TempDir(), work: work, api: api,
		inputs: map[string]string{"build": "sh build.sh", "command": "./bench", "args": "--blocks=6\n",
			"tare":     tareBinary,
			"annotate": "build.sh:1"}}
	event, err := json.Marshal(map[string]any{"number": 7, "pull_request": map[string]any{"number": 7,
		"title": evilTitle,
		"base":  map[string]any{"sha": base, "ref": "main"}, "head": map[string]any{"sha": head, "ref": evilBranch}}})
	if err != nil {
		t.Fatal(err)
	}
	r.event = filepath.Join(r.dir, "event.json")
	if err := os.WriteFile(r.event, event, 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	stepMeasure = "Compare base and head"
	stepPublish = "Comment and check"
)

func wants(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s has no %q:\n%s", what, p, text)
		}
	}
}

// TestActionOnAPullRequest: from a checkout to a red check, twice, and then without rights.
func TestActionOnAPullRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it measures")
	}
	t.Parallel()
	api := newStandIn(t, "github.json")
	for i := range 130 { // what people say, and one who would like his words to be replaced
		api.comments = append(api.comments, comment{ID: i + 1, Body: "<!-- tare pull tare -->\nmine", By: "somebody"})
	}
	repo, base, tip, head := pullRepository(t, "")
	work := checkOut(t, repo, head)
	before := git(t, work, "status", "--porcelain") + git(t, work, "for-each-ref")
	r := newRunner(t, work, api.URL, tip, head)
	if code := r.run(); code != 3 {
		t.Fatalf("it ended with %d, want 3\n%v", code, r.said)
	}
	if after := git(t, work, "status", "--porcelain") + git(t, work, "for-each-ref"); after != before {
		t.Errorf("the checkout was changed:\n%s\n%s", before, after)
	}
	if _, err := os.Stat(filepath.Join(work, "pwned")); err == nil {
		t.Error("a name was run")
	}
	ours := api.ours()
	if len(ours) != 1 || len(api.checks) != 1 {
		t.Fatalf("%d comments, %d checks\n%s", len(ours), len(api.checks), r.said[stepPublish])
	}
	first := ours[0]
	wants(t, "the comment", first.Body, "<!-- tare pull tare -->\n### ❌ tare: beyond the limit: head costs ",
		"▲ DIFFERENT", "first run",
		"slower(head, command, 5%)", fmt.Sprintf("base %.12s against head %.12s", base, head),
		"[the run](https://forge.example/some/thing/actions/runs/12)")
	for _, foreign := range []string{"everyone", "img", "pwned", r.dir} {
		if strings.Contains(first.Body, foreign) {
			t.Errorf("the comment has %q", foreign)
		}
	}
	wants(t, "the summary", r.summary, "### ❌ tare: beyond the limit: head costs ", "▲ DIFFERENT")
	check := api.checks[0]
	if check["conclusion"] != "failure" || check["head_sha"] != head {
		t.Errorf("%v", check)
	}
	wants(t, "the check", fmt.Sprint(check), "path:build.sh", "annotation_level:failure", "ratio(head, command)")
	// What is built may not give commands to the runner.
	stopped := regexp.MustCompile(`(?s)::stop-commands::([0-9a-f]{32})\n.*\n::([0-9a-f]{32})::\n`)
	if !stopped.MatchString(r.said[stepMeasure]) {
		t.Errorf("commands are not stopped:\n%s", r.said[stepMeasure])
	}

	// The same again: one comment, updated, which says that it was seen twice.
	if code := r.run(); code != 3 {
		t.Fatalf("it ended with %d, want 3\n%v", code, r.said)
	}
	ours = api.ours()
	if len(ours) != 1 || ours[0].ID != first.ID {
		t.Fatalf("%d comments: %v", len(ours), api.asked())
	}
	wants(t, "the comment", ours[0].Body, "seen in 2 of the last 2 runs")
	for _, c := range api.comments {
		if c.By == "somebody" && c.Body != "<!-- tare pull tare -->\nmine" {
			t.Fatal("somebody else's comment was changed")
		}
	}
	pullWithoutRights(t, r, api)
	pullOnAnotherProcessor(t, r)
}

// pullWithoutRights: what may not be told is said, and the step ends well.
func pullWithoutRights(t *testing.T, r *runner, api *standIn) {
	t.Helper()
	report := func() {
		t.Helper()
		// The annotations of the run before went into its check.
		said, code := r.tare("pull", "report", "--code", "3", r.folder(), "--annotate", "build.sh:1", "--fail-if",
			"slower(head, command, 5%)")
		if code != 3 {
			t.Fatalf("report ended with %d: %s", code, said)
		}
	}
	r.only = stepPublish
	report()
	api.refuse("^POST .*/check-runs|^(POST|PATCH) .*/comments")
	if code := r.run(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	wants(t, "what is said", r.said[stepPublish],
		"no comment on pull request 7: the API refuses it (status 403: Resource",
		"`pull-requests: write`", "`checks: write`", "::error file=build.sh,line=1,title=")
	api.refuse("")
	report()
	r.inputs["token"] = ""
	asked := len(api.asked())
	if code := r.run(); code != 0 || len(api.asked()) != asked {
		t.Errorf("it ended with %d, and asked %v", code, api.asked()[asked:])
	}
	wants(t, "what is said", r.said[stepPublish], "there is no token", "::error file=build.sh")
	r.inputs["token"] = "a\"\nurl = \"http://x"
	if code := r.run(); code != 0 || len(api.asked()) != asked {
		t.Errorf("it ended with %d, and asked %v", code, api.asked()[asked:])
	}
	wants(t, "what is said", r.said[stepPublish], "characters that no token has")
	delete(r.inputs, "token")
	// Nobody answers.
	r.api = "http://127.0.0.1:1"
	if code := r.run(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	wants(t, "what is said", r.said[stepPublish], "no answer")
}

// folder is where the action has its files.
func (r *runner) folder() string { return r.outputs["steps.tool.outputs.directory"] }

// tare runs tare where no CI system is.
func (r *runner) tare(args ...string) (said string, code int) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), tareBinary, args...)
	cmd.Dir, cmd.Env = r.work, append(plainEnvironment(r.t), "TMPDIR="+r.dir)
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		r.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// pullOnAnotherProcessor: runs of another processor do not count, and are not compared.
func pullOnAnotherProcessor(t *testing.T, r *runner) {
	t.Helper()
	dir := r.folder()
	comment := func() string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "comment.md"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	history := filepath.Join(dir, "history", "runs.ndjson")
	edit := func(name, key, value string) {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = regexp.MustCompile(`"`+key+`":"[^"]*"`).ReplaceAll(text, []byte(`"`+key+`":"`+value+`"`))
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if said, code := r.tare("pull", "report", dir, "--history", history); code != 0 {
		t.Fatalf("it ended with %d: %s", code, said)
	}
	wants(t, "the comment", comment(), "seen in 2 of the last 2 runs")
	edit(history, "processor", "Another CPU")
	if said, code := r.tare("pull", "report", dir, "--history", history); code != 0 {
		t.Fatalf("it ended with %d: %s", code, said)
	}
	wants(t, "the comment", comment(), "first run", "1 earlier run on another processor does not count")
	// A history that is none is begun anew.
	if err := os.WriteFile(history, []byte("\x00\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said, code := r.tare("pull", "report", dir, "--history", history)
	if code != 0 {
		t.Fatalf("it ended with %d: %s", code, said)
	}
	wants(t, "what is said", said, "2 lines of the history", "cannot be read")
	edit(filepath.Join(dir, "change.json"), "processor", "Another CPU")
	said, code = r.tare("pull", "report", dir, "--fail-if", "slower(head, command, 5%)")
	if code != 1 {
		t.Errorf("it ended with %d: %s", code, said)
	}
	wants(t, "what is said", said, `the processor changed in between: "Another CPU"`, "all on one runner")
	wants(t, "the comment", comment(), "Nothing was compared")
}

// TestActionWithoutAComparison: a checkout that is shallow, a head that does not build, a program that is not there.
func TestActionWithoutAComparison(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds")
	}
	t.Parallel()
	const hostile = "echo 'cc: <img src=x> @everyone'\necho '```'\necho '::error::fooled' >&2\nexit 7\n"
	repo, base, tip, head := pullRepository(t, hostile)
	for name, c := range map[string]struct {
		clone []string
		base  string
		code  int
		say   []string
	}{
		"shallow": {[]string{"--depth", "1", "--branch", evilBranch}, tip, 2,
			[]string{"this checkout is shallow", "fetch-depth: 0"}},
		"no base": {nil, strings.Repeat("1", 40), 2, []string{"there is no revision", "`git fetch` may bring more"}},
		"no build": {nil, base, 1, []string{fmt.Sprintf("head (%.12s) does not build with", head),
			"exit status 7", "````text",
			"cc: <img src=x> @everyone"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newStandIn(t, "github.json")
			work := checkOut(t, repo, head, c.clone...)
			r := newRunner(t, work, api.URL, c.base, head)
			if code := r.run(); code != c.code {
				t.Fatalf("it ended with %d, want %d\n%v", code, c.code, r.said)
			}
			ours := api.ours()
			if len(ours) != 1 || len(api.checks) != 1 {
				t.Fatalf("%d comments, %d checks\n%v", len(ours), len(api.checks), r.said)
			}
			text := strings.ReplaceAll(ours[0].Body, "\\`", "`")
			wants(t, "the comment", text, append(c.say, "### ❌ tare: not compared", "Nothing was compared")...)
			wants(t, "the summary", strings.ReplaceAll(r.summary, "\\`", "`"), c.say...)
			if api.checks[0]["conclusion"] != "failure" {
				t.Errorf("%v", api.checks[0])
			}
			if left, _ := filepath.Glob(filepath.Join(work, ".git", "worktrees", "*")); len(left) > 0 {
				t.Errorf("worktrees are left: %v", left)
			}
			// What the build said is a command to the runner nowhere else than where these are stopped.
			rest := r.said[stepMeasure]
			if from := strings.Index(rest, "::stop-commands::"); from >= 0 {
				word := rest[from+len("::stop-commands::"):][:32]
				rest = rest[:from] + rest[strings.Index(rest, "::"+word+"::"):]
			}
			if strings.Contains(rest+r.said[stepPublish], "\n::error::fooled") {
				t.Errorf("the runner is fooled:\n%s", rest)
			}
		})
	}
}

// published runs the script's second half in a folder, as a job with these variables does.
func published(t *testing.T, dir string, variables ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "tare pull script >pull.sh && sh pull.sh publish")
	cmd.Dir = dir
	cmd.Env = append(append(plainEnvironment(t), "HOME="+dir), variables...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// unmade writes a comment that says that nothing was compared, with the reason.
func unmade(t *testing.T, dir, problem string) {
	t.Helper()
	log := filepath.Join(dir, "log.txt")
	if err := os.WriteFile(log, []byte("tare: "+problem+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &runner{t: t, work: dir, dir: dir}
	if said, code := r.tare("pull", "report", "tare-pull", "--code", "1", "--log", log); code != 1 {
		t.Fatalf("it ended with %d: %s", code, said)
	}
}

// TestPublishToGitLab: one note, which is updated; rights that lack are told.
func TestPublishToGitLab(t *testing.T) {
	otherProcess(t)
	t.Parallel()
	api := newStandIn(t, "gitlab.json")
	dir := t.TempDir()
	run := func(token string) string {
		t.Helper()
		return published(t, dir, "GITLAB_CI=true", "CI_API_V4_URL="+api.URL, "CI_MERGE_REQUEST_PROJECT_ID=42",
			"CI_MERGE_REQUEST_IID=3", "CI_MERGE_REQUEST_DIFF_BASE_SHA="+strings.Repeat("1", 40),
			"CI_COMMIT_SHA="+strings.Repeat("2", 40), "CI_JOB_URL=https://forge.example/job/1", "TARE_TOKEN="+token)
	}
	wants(t, "what is said", run(apiToken), "there is nothing to publish in tare-pull")
	for _, problem := range []string{"one", "two"} {
		unmade(t, dir, "problem "+problem)
		said := run(apiToken)
		ours := api.ours()
		if len(ours) != 1 {
			t.Fatalf("%d comments: %s", len(ours), said)
		}
		wants(t, "the comment", ours[0].Body, "problem "+problem)
	}
	wants(t, "the requests", strings.Join(api.asked(), "\n"), "POST /projects/42/merge_requests/3/notes",
		"PUT /projects/42/merge_requests/3/notes/1000")
	api.refuse("^PUT ")
	wants(t, "what is said", run(apiToken), "no comment on merge request 3", "scope api")
	wants(t, "what is said", run(""), "there is no token")
}

// TestPublishFromJenkins: the pull request is told from its address.
func TestPublishFromJenkins(t *testing.T) {
	otherProcess(t)
	t.Parallel()
	api := newStandIn(t, "github.json")
	dir := t.TempDir()
	unmade(t, dir, "one")
	job := []string{"JENKINS_URL=https://ci.example/", "CHANGE_TARGET=main",
		"CHANGE_URL=https://github.com/some/thing/pull/7",
		"GIT_COMMIT=" + strings.Repeat("2", 40), "TARE_API=" + api.URL, "TARE_TOKEN=" + apiToken}
	said := published(t, dir, append(job, "TARE_AUTHOR=robot")...)
	wants(t, "what is said", said, "pull request 7 has a comment", "say TARE_AUTHOR=github-actions[bot]")
	wants(t, "what is said", published(t, dir, job...), "the comment on pull request 7 is updated")
	if ours := api.ours(); len(ours) != 1 || len(api.checks) != 0 {
		t.Errorf("%d comments, %d checks", len(ours), len(api.checks))
	}
}

// TestActionIsSafe: nothing that a stranger may have written becomes a part of a script, and the code of a pull request
// has no token.
func TestActionIsSafe(t *testing.T) {
	a := readAction(t)
	if a.Runs.Using != "composite" || len(a.Runs.Steps) < 5 {
		t.Fatalf("%+v", a.Runs)
	}
	for _, s := range a.Runs.Steps {
		if strings.Contains(s.Run, "${{") {
			t.Errorf("the step %q puts an expression into its script", s.Name)
		}
		if (s.Run == "") == (s.Uses == "") || s.Run != "" && s.Shell != "bash" {
			t.Errorf("the step %q has neither a script for bash nor another action, or both", s.Name)
		}
		if _, ok := s.Env["TARE_TOKEN"]; ok != (s.Name == stepPublish) {
			t.Errorf("the step %q and the token", s.Name)
		}
	}
	for _, name := range []string{"github/workflow.yml", "gitlab/tare.gitlab-ci.yml"} {
		text, err := os.ReadFile(filepath.Join("../../contrib", name))
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := yaml.Unmarshal(text, &v); err != nil || len(v) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
