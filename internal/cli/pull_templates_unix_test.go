//go:build unix

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// template reads one of the files that `tare pull init` prints.
func template(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../contrib", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// runLines runs lines as a job of a CI system does: in one shell that ends with the first that fails.
func runLines(t *testing.T, dir string, lines, variables []string) (said string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.Join(lines, "\n"))
	home := t.TempDir()
	cmd.Dir, cmd.Env = dir, append(append(plainEnvironment(t), "HOME="+home, "TMPDIR="+home), variables...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// gitlabJob is a job of the template, as far as it is run here.
type gitlabJob struct {
	Extends      string
	Variables    map[string]string
	BeforeScript []string `yaml:"before_script"`
	Script       []string
	Needs        []string
	Cache        struct{ Paths []string }
	Artifacts    struct {
		Paths   []string
		Reports struct{ Junit string }
	}
}

// run carries out a job in a folder, with the variables that a user would change.
func (j *gitlabJob) run(t *testing.T, all map[string]*gitlabJob, dir string, variables ...string) (string, int) {
	t.Helper()
	base := all[j.Extends]
	var env []string
	for _, of := range []*gitlabJob{base, j} {
		for name, v := range of.Variables {
			env = append(env, name+"="+v)
		}
	}
	return runLines(t, dir, append(append([]string{}, base.BeforeScript...), j.Script...),
		append(env, append(variables, "TARE_BUILD=sh build.sh", "TARE_COMMAND=./bench", "TARE_ARGS=--blocks=6")...))
}

// TestGitLabTemplate runs the lines of both jobs of the template, from a checkout to a comment: the second job has
// nothing but what the first one keeps, and the token, which the first one does not have.
func TestGitLabTemplate(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it measures")
	}
	t.Parallel()
	var jobs map[string]*gitlabJob
	if err := yaml.Unmarshal([]byte(template(t, "gitlab/tare.gitlab-ci.yml")), &jobs); err != nil {
		t.Fatal(err)
	}
	compare, comment := jobs["tare:compare"], jobs["tare:comment"]
	if compare == nil || comment == nil || jobs[compare.Extends] == nil || jobs[comment.Extends] == nil ||
		len(comment.Needs) != 1 || comment.Needs[0] != "tare:compare" {
		t.Fatalf("%+v", jobs)
	}
	api := newStandIn(t, "gitlab.json")
	repo, base, _, head := pullRepository(t, "")
	work := checkOut(t, repo, head)
	merge := []string{"GITLAB_CI=true", "CI_API_V4_URL=" + api.URL, "CI_MERGE_REQUEST_PROJECT_ID=42",
		"CI_MERGE_REQUEST_IID=3", "CI_MERGE_REQUEST_DIFF_BASE_SHA=" + base, "CI_COMMIT_SHA=" + head,
		"CI_JOB_URL=https://forge.example/job/1"}
	said, code := compare.run(t, jobs, work, merge...)
	if code != 3 {
		t.Fatalf("tare:compare ended with %d, want 3:\n%s", code, said)
	}
	for _, kept := range append(append(compare.Artifacts.Paths, compare.Cache.Paths...),
		compare.Artifacts.Reports.Junit) {
		if _, err := os.Stat(filepath.Join(work, kept)); err != nil {
			t.Errorf("what is kept is not there: %v\n%s", err, said)
		}
	}
	if len(api.asked()) > 0 {
		t.Errorf("without a token it asked %v", api.asked())
	}
	alone := t.TempDir()
	if err := os.Rename(filepath.Join(work, "tare-pull"), filepath.Join(alone, "tare-pull")); err != nil {
		t.Fatal(err)
	}
	if said, code = comment.run(t, jobs, alone, append(merge, "TARE_TOKEN="+apiToken)...); code != 0 {
		t.Fatalf("tare:comment ended with %d:\n%s", code, said)
	}
	ours := api.ours()
	if len(ours) != 1 {
		t.Fatalf("%d comments: %s", len(ours), said)
	}
	wants(t, "the comment", ours[0].Body, "beyond the limit: head costs ", "▲ DIFFERENT", "first run")
}

var (
	jenkinsStep     = regexp.MustCompile(`(?m)^\s*sh '([^']*)'$`)
	jenkinsVariable = regexp.MustCompile(`(?m)^\s*(TARE_\w+) = '([^']*)'$`)
)

// TestJenkinsfile runs the shell's steps of the Jenkinsfile, from the checkout that Jenkins makes to a comment.
func TestJenkinsfile(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it measures")
	}
	t.Parallel()
	text := template(t, "jenkins/Jenkinsfile")
	var steps, env []string
	for _, m := range jenkinsStep.FindAllStringSubmatch(text, -1) {
		steps = append(steps, m[1])
	}
	for _, m := range jenkinsVariable.FindAllStringSubmatch(text, -1) {
		env = append(env, m[1]+"="+m[2])
	}
	if n := len(steps); n != strings.Count(text, "sh '") || n < 4 || len(env) < 5 ||
		!strings.Contains(steps[n-1], "publish") || !strings.Contains(steps[n-2], "measure") {
		t.Fatalf("%q, %q", steps, env)
	}
	api := newStandIn(t, "github.json")
	repo, _, _, head := pullRepository(t, "")
	// A multibranch project has the branch of the pull request only.
	work := checkOut(t, repo, head, "--single-branch", "--branch", evilBranch)
	env = append(env, "JENKINS_URL=https://ci.example/", "CHANGE_TARGET=main",
		"CHANGE_URL=https://github.com/some/thing/pull/7", "GIT_COMMIT="+head, "TARE_API="+api.URL,
		"TARE_BUILD=sh build.sh", "TARE_COMMAND=./bench", "TARE_ARGS=--blocks=6")
	last := len(steps) - 1
	said, code := runLines(t, work, steps[:last], env)
	if code != 3 {
		t.Fatalf("it ended with %d, want 3:\n%s", code, said)
	}
	if said, code = runLines(t, work, steps[last:], append(env, "TARE_TOKEN="+apiToken)); code != 0 {
		t.Fatalf("what follows ended with %d:\n%s", code, said)
	}
	if ours := api.ours(); len(ours) != 1 || !strings.Contains(ours[0].Body, "beyond the limit: head costs ") {
		t.Errorf("%v: %s", ours, said)
	}
}
