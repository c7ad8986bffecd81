package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/leftover"
	"tare/internal/lab/worktree"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// saidByBuild is the number of last lines that are shown of a build that failed.
const saidByBuild = 15

// checkOut gives each revision a worktree, builds it there and has its variants run there, elsewhere in a copy of it.
// release removes the worktrees, also after an error.
func (cmd *abCommand) checkOut(ctx context.Context, revisions []string, all []variant) (release func() error,
	err error) {
	release = func() error { return nil }
	repo, err := worktree.Open(ctx, cmd.flags.repo)
	if err != nil {
		return release, usageError{err}
	}
	var commits []string
	for i, r := range revisions {
		c, err := repo.Resolve(ctx, r)
		if err != nil {
			return release, usageError{fmt.Errorf("--git: %w", err)}
		}
		if same := slices.Index(commits, c); same >= 0 {
			fmt.Fprintf(cmd.err, "note       %s and %s are the same commit\n", revisions[same], revisions[i])
		}
		if refs := repo.Ambiguous(ctx, r); len(refs) > 0 {
			fmt.Fprintf(cmd.err, "note       %s is a tag and a branch, and git takes %s; for the other one write %s\n",
				printableLine(r), printableLine(refs[0]), printableLine(refs[1]))
		}
		commits = append(commits, c)
	}
	cmd.sayLeft(repo)
	if repo.Changed(ctx) {
		fmt.Fprintln(cmd.err, "note       the working tree has changes that are in no revision, and so not compared")
	}
	if cmd.run.dryRun {
		return release, nil
	}
	cmd.holding("the worktrees are removed")
	dir, remove, err := leftover.New(cmd.scratchBase(), newRunID())
	if err != nil {
		return release, fmt.Errorf("make a place for the worktrees: %w", err)
	}
	release = func() error {
		_, err := worktree.Forget(dir, false)
		return errors.Join(err, remove())
	}
	called := revisions
	if len(cmd.flags.revisions) > 0 {
		called = cmd.flags.revisions
	}
	for i, name := range unique(called) {
		path := filepath.Join(dir, name)
		err := repo.Checkout(ctx, dir, path, commits[i])
		work := filepath.Join(path, repo.Prefix)
		if err == nil {
			err = cmd.build(ctx, called[i], commits[i], work, path)
		}
		if ctx.Err() != nil {
			fmt.Fprintln(cmd.err, "tare: stopped before anything was measured; the worktrees are removed")
			return release, codeError{exitFailed}
		}
		if err != nil {
			return release, err
		}
		for n := i; n < len(all); n += len(revisions) { // the revision varies fastest
			if p := all[n].params; onHost(all[n].spec) {
				p["dir"] = filepath.Join(work, cmd.flags.dir)
			} else {
				p["tree"], p["dir"] = path, filepath.ToSlash(filepath.Join(repo.Prefix, cmd.flags.dir))
			}
		}
	}
	return release, nil
}

// sayLeft writes the leftovers of killed runs in the repository: worktrees, or only git's records of them, as after a
// reboot. Neither is in the way of this run.
func (cmd *abCommand) sayLeft(repo *worktree.Repo) {
	killed, gone := 0, 0
	for _, path := range repo.Worktrees() {
		dir := leftover.PrivateDir(path)
		if dir == "" {
			continue
		}
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			gone++
		} else if slices.Contains(leftover.Find(filepath.Dir(dir)), dir) {
			killed++
		}
	}
	if killed > 0 {
		fmt.Fprintf(cmd.err, "note       this repository has %s of runs of tare that were killed: `tare clean` "+
			"removes what they left\n", unit.Plural(killed, "worktree"))
	}
	if gone > 0 {
		fmt.Fprintf(cmd.err, "note       git remembers %s of runs of tare whose files are gone: `git worktree prune` "+
			"forgets them\n", unit.Plural(gone, "worktree"))
	}
}

// build builds a revision in its worktree.
func (cmd *abCommand) build(ctx context.Context, revision, commit, work, top string) error {
	if info, err := os.Stat(work); err != nil || !info.IsDir() {
		return fmt.Errorf("%s has no folder %s; run tare ab --git at the top of the repository", revision,
			strings.TrimPrefix(work, top+string(filepath.Separator)))
	}
	if cmd.flags.build == "" {
		return nil
	}
	say := func(format string, args ...any) {
		if !cmd.run.quiet {
			fmt.Fprintf(cmd.err, format, args...)
		}
	}
	say("build      %s (%.12s): %s\n", printableLine(revision), commit, printableLine(cmd.flags.build))
	argv := []string{"sh", "-c", cmd.flags.build}
	if runtime.GOOS == "windows" {
		argv = []string{"cmd", "/D", "/C", cmd.flags.build}
	}
	began, said := time.Now(), proc.NewTail(32<<10)
	c := proc.Command(ctx, argv...)
	c.Dir, c.Stdout, c.Stderr = work, said, said
	err := proc.Wait(c)
	if err == nil {
		say("           took %.1f s\n", time.Since(began).Seconds())
		return nil
	}
	lines := strings.Split(strings.TrimSpace(proc.Printable(said.Bytes())), "\n")
	lines = lines[max(0, len(lines)-saidByBuild):]
	advice := "fix it, leave the revision out, or give another --build"
	if _, err := os.Stat(filepath.Join(top, ".gitmodules")); err == nil {
		advice += "; it has submodules, which a worktree begins without: --build 'git submodule update --init && ...'"
	}
	return fmt.Errorf("%s (%.12s) does not build with %s: %w; %s\n  %s", revision, commit, quoteArg(cmd.flags.build),
		err, advice, strings.Join(lines, "\n  "))
}
