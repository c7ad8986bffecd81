package worktree

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// git runs git in a folder, with a name for commits and without the user's configuration.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.invalid",
		"-c", "protocol.file.allow=always"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// repository makes one with two commits, the first of which is tagged v1, and a hook that would leave a trace.
func repository(t *testing.T) (dir, trace string) {
	t.Helper()
	dir, trace = t.TempDir(), filepath.Join(t.TempDir(), "trace")
	git(t, dir, "init", "-q", "-b", "main")
	for i, text := range []string{"one", "two"} {
		write(t, filepath.Join(dir, "sub", "file"), text)
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-q", "-m", text)
		if i == 0 {
			git(t, dir, "tag", "v1")
		}
	}
	hook := filepath.Join(dir, ".git", "hooks", "post-checkout")
	write(t, hook, "#!/bin/sh\n: >"+trace+"\n")
	if err := os.Chmod(hook, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, trace
}

func TestCheckoutAndForget(t *testing.T) {
	dir, trace := repository(t)
	write(t, filepath.Join(dir, "sub", "file"), "changed by the user")
	own := filepath.Join(t.TempDir(), "own")
	git(t, dir, "worktree", "add", "-q", "--detach", own)
	os.Remove(trace) // what the user's own worktree ran
	before := git(t, dir, "status", "--porcelain=v2", "--branch")

	r, err := Open(t.Context(), filepath.Join(dir, "sub"))
	if err != nil || r.Prefix != "sub" || r.Shallow {
		t.Fatalf("%+v, %v", r, err)
	}
	if !r.Changed(t.Context()) {
		t.Error("the change of the working tree is not seen")
	}
	place := t.TempDir()
	for rev, want := range map[string]string{"v1": "one", "main": "two", "HEAD~1": "one"} {
		commit, err := r.Resolve(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(place, strings.ReplaceAll(rev, "~", "-"))
		if err := r.Checkout(t.Context(), place, path, commit); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(path, "sub", "file")); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", rev, got, err)
		}
	}
	if n := strings.Count(git(t, dir, "worktree", "list"), "\n"); n != 4 || len(r.Worktrees()) != 4 ||
		!slices.Contains(r.Worktrees(), own) {
		t.Errorf("%d worktrees beside the first, want 4; listed are %q", n, r.Worktrees())
	}
	if lines, err := Forget(place, true); err != nil || len(lines) != 3 {
		t.Errorf("dry: %q, %v", lines, err)
	}
	if lines, err := Forget(place, false); err != nil || len(lines) != 3 {
		t.Errorf("%q, %v", lines, err)
	}
	if lines, err := Forget(place, false); err != nil || len(lines) != 0 {
		t.Errorf("again: %q, %v", lines, err)
	}
	if list := git(t, dir, "worktree", "list"); strings.Count(list, "\n") != 1 || !strings.Contains(list, own) {
		t.Errorf("left are\n%s", list)
	}
	if after := git(t, dir, "status", "--porcelain=v2", "--branch"); after != before {
		t.Errorf("the user's working tree was\n%s\nand is\n%s", before, after)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("a hook ran")
	}
}

func TestForgetWithoutWorktrees(t *testing.T) {
	if lines, err := Forget(t.TempDir(), false); err != nil || lines != nil {
		t.Errorf("%q, %v", lines, err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, noteFile), "relative\n")
	if _, err := Forget(dir, false); err == nil {
		t.Error("a note that names no repository is no error")
	}
	gone := t.TempDir()
	write(t, filepath.Join(gone, noteFile), `"/nowhere/at all/.git"`+"\n")
	if lines, err := Forget(gone, false); err != nil || lines != nil {
		t.Errorf("a repository that is gone: %q, %v", lines, err)
	}
}

func TestMistakes(t *testing.T) {
	if _, err := Open(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "in no git repository") {
		t.Errorf("no repository: %v", err)
	}
	dir, _ := repository(t)
	r, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	git(t, dir, "tag", "tree", "HEAD^{tree}")
	for rev, want := range map[string]string{"": "not a revision", "--all": "not a revision",
		"v2":            `there is no revision "v2" in this repository; `,
		"tree":          `"tree" is not a revision but a tree; name a commit`,
		"main:sub/file": `is not a revision but a blob`} {
		if _, err := r.Resolve(t.Context(), rev); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", rev, err, want)
		}
	}

	// As a CI system checks out: one commit, detached, without branches.
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, dir, "clone", "-q", "--depth=1", "file://"+dir, shallow)
	git(t, shallow, "checkout", "-q", "--detach")
	git(t, shallow, "branch", "-q", "-D", "main")
	if r, err = Open(t.Context(), shallow); err != nil || !r.Shallow {
		t.Fatalf("%+v, %v", r, err)
	}
	for rev, want := range map[string]string{"HEAD~1": "git fetch --unshallow", "main": "did you mean origin/main?"} {
		if _, err := r.Resolve(t.Context(), rev); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", rev, err, want)
		}
	}
	if _, err := r.Resolve(t.Context(), "origin/main"); err != nil {
		t.Error(err)
	}
}

// TestAmbiguous: a name that a tag and a branch have. Git says so only to standard error, and goes on.
func TestAmbiguous(t *testing.T) {
	dir, _ := repository(t)
	git(t, dir, "branch", "v1", "main")
	git(t, dir, "tag", "-a", "-m", "annotated", "main", "main")
	git(t, dir, "update-ref", "refs/remotes/origin/main", "v1^{commit}")
	r, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for rev, want := range map[string]string{"v1": "refs/tags/v1 refs/heads/v1", "v1~0": "refs/tags/v1 refs/heads/v1",
		"v1^{commit}": "refs/tags/v1 refs/heads/v1",
		"main":        "", // both are the same commit
		"HEAD":        "", "@{0}": "", "origin/main": "", "refs/heads/v1": "", "nosuch": "", "*": "", "": ""} {
		if got := strings.Join(r.Ambiguous(t.Context(), rev), " "); got != want {
			t.Errorf("%s may be %q, want %q", rev, got, want)
		}
	}
	if got, err := r.Resolve(t.Context(), "v1"); err != nil || got != git(t, dir, "rev-parse", "refs/tags/v1") {
		t.Errorf("%s, %v: not the tag", got, err)
	}
}

func TestMergeBase(t *testing.T) {
	dir, _ := repository(t)
	git(t, dir, "checkout", "-q", "-b", "work", "v1")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "three")
	git(t, dir, "checkout", "-q", "--orphan", "other")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "other")
	merge := func(dir, a, b string) (string, error) {
		t.Helper()
		r, err := Open(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return r.MergeBase(t.Context(), git(t, dir, "rev-parse", a), git(t, dir, "rev-parse", b))
	}
	if got, err := merge(dir, "main", "work"); err != nil || got != git(t, dir, "rev-parse", "v1") {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := merge(dir, "main", "other"); err == nil || !strings.Contains(err.Error(), "no history in common") {
		t.Errorf("%v", err)
	}
	// Where both were fetched without what was before, the advice is to fetch it.
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, t.TempDir(), "clone", "-q", "--depth", "1", "--no-single-branch", "file://"+dir, shallow)
	if _, err := merge(shallow, "origin/main", "origin/work"); err == nil ||
		!strings.Contains(err.Error(), "fetch-depth: 0") {
		t.Errorf("%v", err)
	}
}
