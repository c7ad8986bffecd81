// Package worktree checks out revisions of a git repository, each in a worktree of its own, and removes them.
//
// It never touches the user's working tree, index or branches: a worktree is detached, lies in a private directory of
// tare's, and no hook runs. All that git keeps of it in the repository is a folder in .git/worktrees, which Forget
// removes without git, also after tare was killed.
package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare/internal/sys/proc"
)

// Repo is a git repository.
type Repo struct {
	dir    string // where git is started: what the user named
	common string // the folder .git, with what all worktrees share
	// Prefix is the folder of the repository that the user named, as a path from its top; "" for the top.
	Prefix string
	// Shallow says that older commits are not here.
	Shallow bool
}

// Open finds the repository that a folder is in.
func Open(ctx context.Context, dir string) (*Repo, error) {
	r := &Repo{dir: dir}
	out, err := r.git(ctx, "rev-parse", "--git-common-dir", "--is-shallow-repository", "--show-prefix")
	if err != nil {
		if x, ok := errors.AsType[*proc.ExitError](err); ok && strings.Contains(x.Stderr, "not a git repository") {
			return nil, fmt.Errorf("%s is in no git repository; go to one, or name one with --repo", dir)
		}
		return nil, err
	}
	lines := append(strings.Split(string(out), "\n"), "", "")
	r.common = lines[0]
	if !filepath.IsAbs(r.common) {
		r.common = filepath.Join(dir, r.common)
	}
	if r.common, err = filepath.Abs(r.common); err != nil {
		return nil, err
	}
	r.Shallow, r.Prefix = lines[1] == "true", filepath.FromSlash(strings.TrimSuffix(lines[2], "/"))
	return r, nil
}

// git runs git in the repository. Variables that name another repository, as a hook's do, are left out.
func (r *Repo) git(ctx context.Context, args ...string) ([]byte, error) {
	cmd := proc.Command(ctx, append([]string{"git", "-C", r.dir, "--no-optional-locks", "-c",
		"core.hooksPath=" + os.DevNull, "-c", "advice.detachedHead=false"}, args...)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX",
			"LANGUAGE", "LC_ALL"}, name)
	}), "LC_ALL=C")
	return proc.RunCmd(cmd, nil)
}

// Resolve returns the commit that a revision stands for, in full. The error says how to get one that is not here.
func (r *Repo) Resolve(ctx context.Context, revision string) (string, error) {
	if revision == "" || strings.HasPrefix(revision, "-") {
		return "", fmt.Errorf("%q is not a revision", revision)
	}
	commit, err := r.commit(ctx, revision)
	if err == nil {
		return commit, nil
	}
	if x, ok := errors.AsType[*proc.ExitError](err); !ok || x.Code != 1 {
		return "", err
	}
	if out, err := r.git(ctx, "cat-file", "-t", revision); err == nil {
		return "", fmt.Errorf("%q is not a revision but a %s; name a commit, a branch or a tag of a commit", revision,
			strings.TrimSpace(string(out)))
	}
	advice := "`git branch --all` and `git tag` list what is here, `git fetch` may bring more"
	if _, err := r.commit(ctx, "origin/"+revision); err == nil {
		advice = "did you mean origin/" + revision + "?"
	} else if r.Shallow {
		advice = "this checkout is shallow, so older commits and their tags are not here: `git fetch --unshallow " +
			"--tags` brings them (in GitHub Actions: fetch-depth: 0; in GitLab: GIT_DEPTH: 0)"
	}
	return "", fmt.Errorf("there is no revision %q in this repository; %s", revision, advice)
}

// Ambiguous returns the full names of a tag and of branches that all are called as a revision is but are not the same
// commit; nil where there is no doubt. Git takes the first of them.
func (r *Repo) Ambiguous(ctx context.Context, revision string) []string {
	name := revision
	for _, mark := range []string{"~", "^", ":", "@{"} {
		name, _, _ = strings.Cut(name, mark)
	}
	if name == "" || strings.ContainsAny(name, "*?[\\") {
		return nil
	}
	var refs, commits []string
	for _, kind := range []string{"refs/tags/", "refs/heads/", "refs/remotes/"} { // as git looks for them
		if c, err := r.commit(ctx, kind+name); err == nil && c != "" {
			refs = append(refs, kind+name)
			if !slices.Contains(commits, c) {
				commits = append(commits, c)
			}
		}
	}
	if len(commits) < 2 {
		return nil
	}
	return refs
}

func (r *Repo) commit(ctx context.Context, revision string) (string, error) {
	out, err := r.git(ctx, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	return strings.TrimSpace(string(out)), err
}

// MergeBase returns the newest commit that two commits have in common.
func (r *Repo) MergeBase(ctx context.Context, a, b string) (string, error) {
	out, err := r.git(ctx, "merge-base", a, b)
	if x, ok := errors.AsType[*proc.ExitError](err); ok && x.Code == 1 {
		advice := "they have no history in common"
		if r.Shallow {
			advice = "this checkout is shallow, so what they have in common is not here: `git fetch --unshallow` " +
				"brings it (in GitHub Actions: fetch-depth: 0; in GitLab: GIT_DEPTH: 0)"
		}
		return "", fmt.Errorf("%.12s and %.12s have no commit in common here; %s", a, b, advice)
	}
	if err != nil {
		return "", err
	}
	commit, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return commit, nil
}

// Changed tells whether tracked files of the user's working tree differ from its commit.
func (r *Repo) Changed(ctx context.Context) bool {
	out, err := r.git(ctx, "status", "--porcelain", "--untracked-files=no")
	return err == nil && len(out) > 0
}

// noteFile is the name of the file in a private directory that names the repository of the worktrees below it.
const noteFile = "worktrees"

// Checkout makes a worktree of a commit at path, below the private directory dir of a run. Forget(dir) has to follow.
func (r *Repo) Checkout(ctx context.Context, dir, path, commit string) error {
	note := []byte(strconv.Quote(r.common) + "\n")
	if err := os.WriteFile(filepath.Join(dir, noteFile), note, 0o600); err != nil {
		return err
	}
	if _, err := r.git(ctx, "worktree", "add", "--detach", path, commit); err != nil {
		return fmt.Errorf("check out %s: %w", commit, err)
	}
	return nil
}

// Forget removes from their repository what git keeps of the worktrees below a run's private directory, which the
// caller removes afterwards. It returns a line for each, and it is no error if there are none.
func Forget(dir string, dry bool) ([]string, error) {
	text, err := readSmall(filepath.Join(dir, noteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	common, bad := strconv.Unquote(strings.TrimSpace(text))
	if err = errors.Join(err, bad); err != nil || !filepath.IsAbs(common) {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, noteFile), errors.Join(err, fs.ErrInvalid))
	}
	kept, err := records(common)
	var lines []string
	errs := []error{err}
	for _, k := range kept {
		if !below(k.path, dir) {
			continue
		}
		if !dry {
			if err := os.RemoveAll(k.record); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		lines = append(lines, fmt.Sprintf("worktree %s of %s", k.path, common))
	}
	if !dry && len(lines) > 0 {
		os.Remove(filepath.Join(common, worktrees)) // as git does with the last one; it stays if it is not empty
	}
	return lines, errors.Join(errs...)
}

// worktrees is the folder of .git in which git keeps a record of each worktree beside the first.
const worktrees = "worktrees"

// worktreeRecord is git's record of a worktree.
type worktreeRecord struct {
	record string // a folder of .git
	path   string // the worktree, which may be gone
}

// records lists what git keeps of worktrees. Without any there is no error.
func records(common string) ([]worktreeRecord, error) {
	all := filepath.Join(common, worktrees)
	entries, err := os.ReadDir(all)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []worktreeRecord
	for _, e := range entries {
		record := filepath.Join(all, e.Name())
		at, err := readSmall(filepath.Join(record, "gitdir"))
		if at = strings.TrimSpace(at); err != nil || at == "" {
			continue
		}
		if !filepath.IsAbs(at) { // with worktree.useRelativePaths
			at = filepath.Join(record, at)
		}
		out = append(out, worktreeRecord{record, filepath.Dir(at)})
	}
	return out, err
}

// Worktrees lists the paths of the repository's worktrees beside the first. Some may be gone.
func (r *Repo) Worktrees() []string {
	all, _ := records(r.common) // what cannot be read is not told
	var paths []string
	for _, k := range all {
		paths = append(paths, k.path)
	}
	return paths
}

// below tells whether a path lies in a directory, also where one of them is named through a symbolic link.
func below(path, dir string) bool {
	for _, d := range []string{dir, resolved(dir)} {
		for _, p := range []string{path, filepath.Join(resolved(filepath.Dir(path)), filepath.Base(path))} {
			if rel, err := filepath.Rel(d, p); err == nil && filepath.IsLocal(rel) && rel != "." {
				return true
			}
		}
	}
	return false
}

func resolved(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}

func readSmall(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return string(b), err
}
