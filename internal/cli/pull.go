package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/contrib"
	"tare/internal/lab/worktree"
	"tare/internal/measure/sysinfo"
	"tare/internal/show/forge"
	"tare/internal/suggest"
)

// The files in the folder of a pull request's comparison, beside those that package forge sends and receives.
const (
	changeFile      = "change.json"
	talkFile        = "talk.json"
	commentText     = "comment.md"
	summaryText     = "summary.md"
	annotationsFile = "annotations.txt"
)

// pullCommand is `tare pull`: what the script around `tare ab` needs in a CI system, for base against head of a pull
// request.
type pullCommand struct {
	*app
}

func (cmd *pullCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "pull", Short: "Compare a pull request with its base in a CI system, and say what came out",
		Long: `Parts of a comparison of a pull request with its base, for GitHub Actions, GitLab and Jenkins. "tare pull
init" writes the file that such a system wants, "tare pull script" the script that it runs: begin, then "tare ab", then
report; and next, which prints each request for curl, until all is sent. The manual goes from nothing to a red check:
docs/pull-requests.md.`,
	}
	c.AddCommand(cmd.initCommand(), cmd.scriptCommand(), cmd.beginCommand(),
		(&pullReport{app: cmd.app}).command(), cmd.nextCommand())
	return c
}

// pullSystems are the CI systems with a file to begin with.
var pullSystems = map[string]string{"github": "github/workflow.yml", "gitlab": "gitlab/tare.gitlab-ci.yml",
	"jenkins": "jenkins/Jenkinsfile"}

func (cmd *pullCommand) initCommand() *cobra.Command {
	names := []string{"github", "gitlab", "jenkins"}
	return &cobra.Command{
		Use: "init github|gitlab|jenkins", Short: "Print the file with which a CI system compares pull requests",
		Long: `Print the file with which a CI system compares each pull request with its base. Write it to where the
system looks for it, and put in how your program is built and what is to be run:

    tare pull init github  >.github/workflows/tare.yml
    tare pull init gitlab  >tare.gitlab-ci.yml           # include: it in .gitlab-ci.yml
    tare pull init jenkins >Jenkinsfile`,
		Args: cobra.ExactArgs(1), ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			name, ok := pullSystems[args[0]]
			if !ok {
				return usagef("there is no file for %q; there are github, gitlab and jenkins%s", args[0],
					suggest.DidYouMean(args[0], names))
			}
			return cmd.contributed(name)
		},
	}
}

func (cmd *pullCommand) scriptCommand() *cobra.Command {
	return &cobra.Command{
		Use: "script", Short: "Print the script that a CI system runs, for sh",
		Long: `Print the script that a CI system runs, for any sh. Its head says which variables it takes. It needs git
and curl.

    tare pull script >pull.sh
    TARE_COMMAND='./bin/x bench' TARE_BUILD=make sh pull.sh measure
    TARE_TOKEN=... sh pull.sh publish`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return cmd.contributed("pull.sh") },
	}
}

func (cmd *pullCommand) contributed(name string) error {
	text, err := contrib.Files.ReadFile(name)
	if err == nil {
		_, err = cmd.out.Write(text)
	}
	return err
}

func (cmd *pullCommand) beginCommand() *cobra.Command {
	var repo, base, head string
	c := &cobra.Command{
		Use: "begin FOLDER", Short: "Find base and head of a pull request, and print their commits",
		Long: `Find the base and the head of the pull request that this job is for, by what the CI system says, and
print the two commits in one line. The base is the newest commit that both have in common, so that what happened on the
target's branch meanwhile does not count. What was found is written to change.json in the folder, which is made.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return cmd.begin(c.Context(), args[0], repo, base, head)
		},
	}
	c.Flags().StringVar(&repo, "repo", ".", "a folder of the repository")
	c.Flags().StringVar(&base, "base", "", "another revision to compare with, such as origin/main [the CI system's]")
	c.Flags().StringVar(&head, "head", "", "another revision to compare [the CI system's, else HEAD]")
	return c
}

// change returns the change by the CI system's description.
func (con *console) change() (*forge.Change, error) {
	return forge.Detect(con.getenv, func(name string) (io.ReadCloser, error) { return os.Open(name) })
}

func (cmd *pullCommand) begin(ctx context.Context, dir, repo, base, head string) error {
	c, err := cmd.change()
	if err != nil {
		return usageError{err}
	}
	for _, x := range []struct {
		to    *string
		given string
	}{{&c.Base, base}, {&c.Head, head}} {
		if x.given != "" {
			*x.to = x.given
		}
	}
	if c.Head == "" {
		c.Head = "HEAD"
	}
	if c.Base == "" {
		return usagef("it is not known what to compare with: this job is for no pull request (in GitHub Actions: on: " +
			"pull_request; in GitLab: rules with merge_request_event; in Jenkins: a multibranch project); name a " +
			"revision with --base")
	}
	r, err := worktree.Open(ctx, repo)
	if err != nil {
		return usageError{err}
	}
	var tip string
	if tip, err = r.Resolve(ctx, c.Base); err == nil {
		if c.Head, err = r.Resolve(ctx, c.Head); err == nil {
			c.Base, err = r.MergeBase(ctx, tip, c.Head)
		}
	}
	if err != nil {
		return usageError{fmt.Errorf("base and head of %s: %w", c.Title(), err)}
	}
	if c.Base == c.Head {
		fmt.Fprintf(cmd.err, "note       base and head are one commit, %.12s: it is compared with itself\n", c.Head)
	}
	c.Processor = sysinfo.Collect(ctx, ".").CPU
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("make the folder of the comparison: %w", err)
	}
	if err := writeJSON(filepath.Join(dir, changeFile), c); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.out, "%s %s\n", c.Base, c.Head)
	return err
}

func writeJSON(name string, v any) error {
	return writeWhole(name, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	})
}

// maxChange bounds change.json, in bytes.
const maxChange = 64 << 10

// begun returns the change that begin wrote. Without that, it is that of change.
func (con *console) begun(dir string) (*forge.Change, error) {
	f, err := os.Open(filepath.Join(dir, changeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return con.change()
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var c forge.Change
	if err := json.NewDecoder(io.LimitReader(f, maxChange)).Decode(&c); err != nil {
		return nil, fmt.Errorf("read %s: %w; run tare pull begin again", f.Name(), err)
	}
	return &c, nil
}

func (cmd *pullCommand) nextCommand() *cobra.Command {
	var t forge.Talk
	var name string
	var status int
	var noToken, noComment, noCheck bool
	c := &cobra.Command{
		Use: "next FOLDER", Short: "Print the next request about a comparison, for curl",
		Long: `Print the next request about a comparison as a configuration for "curl --config -", and nothing when all
is sent: look for the comment on the pull request, update it or make it, make the check. The token is added by whoever
calls curl, as the header Authorization: Bearer, and tare never has it. Call it with the status of the last request,
whose answer is in response.json in the folder. A request that is refused is named on standard error, and the exit code
stays 0. Where to send is taken from the CI system's variables, never from the folder.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t.Comment, t.Check, t.Marker = !noComment, !noCheck, marker(name)
			given := c.Flags().Changed("status")
			if given && (status < 0 || status > 999) {
				return usagef("--status is a status of HTTP, or 0, not %d", status)
			}
			return cmd.next(args[0], t, given, status, noToken)
		},
	}
	c.Flags().IntVar(&status, "status", 0, "status of the last request; 0 if there was no answer [begin anew]")
	c.Flags().StringVar(&t.Author, "author", "", "who writes the comments, if that is not GitHub's own bot or, of "+
		"GitLab, the token's user")
	c.Flags().BoolVar(&noToken, "no-token", false, "there is no token: say so, and send nothing")
	c.Flags().BoolVar(&noComment, "no-comment", false, "write no comment")
	c.Flags().BoolVar(&noCheck, "no-check", false, "make no check")
	pullName(c, &name)
	return c
}

// next is one step of a conversation.
func (cmd *pullCommand) next(dir string, t forge.Talk, answered bool, status int, noToken bool) error {
	change, err := cmd.change()
	if err != nil {
		return usageError{err}
	}
	talk := &t
	switch {
	case noToken:
		talk.Refuse("there is no token, so nothing is sent to " + change.Title() + "; the summary and the log have it")
	case answered:
		f, err := os.Open(filepath.Join(dir, talkFile))
		if err != nil {
			return fmt.Errorf("go on with a conversation: %w; begin it without --status", err)
		}
		talk, err = forge.ReadTalk(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("read %s: %w; begin without --status", f.Name(), err)
		}
		// These may have been changed in the folder by whatever was measured.
		talk.Marker = t.Marker
		body, err := os.Open(filepath.Join(dir, forge.ResponseFile))
		if err != nil {
			talk.Answer(change, status, nil)
		} else {
			talk.Answer(change, status, body)
			body.Close()
		}
	}
	os.Remove(filepath.Join(dir, forge.ResponseFile)) // it may not be there
	request := talk.Next(change, dir)
	for _, n := range talk.Notes {
		fmt.Fprintf(cmd.err, "tare: %s\n", printableLine(n.Text))
	}
	if talk.Checked {
		os.Remove(filepath.Join(dir, annotationsFile)) // they are in the check
	}
	if err := writeJSON(filepath.Join(dir, talkFile), talk); err != nil || request == nil {
		return err
	}
	_, err = io.WriteString(cmd.out, request.Curl())
	return err
}

// pullName is the flag with the name of a comparison.
func pullName(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "name", "tare", "name of the comparison: of its check, and in the marker of its comment")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(*name) > 60 || *name == "" || strings.ContainsFunc(*name, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || slices.Contains(
				[]rune(". _-"), r))
		}) || strings.Contains(*name, "--") {
			return usagef("--name %s: up to 60 letters, digits, blanks, dots, dashes and underscores, and no two "+
				"dashes in a row", quoteArg(*name))
		}
		return run(c, args)
	}
}
