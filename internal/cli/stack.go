package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/lab/deploy"
	"tare/internal/lab/driver/container"
	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/lab/microvm"
	"tare/internal/lab/stack"
	"tare/internal/measure/wire"
	"tare/internal/suggest"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// stackCommand is `tare stack`.
type stackCommand struct {
	*app
}

func (cmd *stackCommand) command() *cobra.Command {
	c := &cobra.Command{Use: "stack", Short: "Real sites to measure: install them, serve them, list and remove them",
		Long: `A stack is a real site with a web server, PHP, a database and content, made of the distribution's packages. It is installed
once, in a directory of the user's cache, never in this machine itself. An environment gets it with stack=NAME:

    tare stack build mediawiki
    tare run -e 'a=namespace?stack=mediawiki' -e 'b=docker?stack=mediawiki' -w http.get:url=stack:@front,verify=status`}
	c.AddCommand(cmd.buildCommand(), cmd.upCommand(), cmd.listCommand(), cmd.downCommand(), cmd.removeCommand())
	return c
}

func (cmd *stackCommand) progress(what string) { fmt.Fprintf(cmd.err, "%s ...\n", what) }

func (cmd *stackCommand) buildCommand() *cobra.Command {
	var refresh bool
	c := &cobra.Command{
		Use: "build NAME[,SETTING=VALUE...]", Short: "Install a stack from the distribution's packages",
		Long: `Install a stack: its packages into a directory (mmdebstrap, else debootstrap), then the site and its content, in namespaces of
their own without a network. Then a copy is started, and its pages are checked. Takes some minutes the first time. The settings
are those of tare stack list. Prints the directory. Needs root, because a site's files have several owners.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			spec, err := stack.Parse(args[0])
			if err != nil {
				return usageError{err}
			}
			s, err := cmd.build(c.Context(), spec, refresh)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.out, s.Dir)
			return nil
		},
	}
	c.Flags().BoolVar(&refresh, "refresh", false, "install it again, with newer versions of the packages")
	return c
}

func (cmd *stackCommand) build(ctx context.Context, spec stack.Spec, refresh bool) (stack.Stack, error) {
	cmd.holding("temporary files are removed")
	return stack.Build(ctx, spec, stack.Options{Refresh: refresh, RunID: newRunID(), Progress: cmd.progress})
}

func (cmd *stackCommand) listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the stacks that there are, those installed, and those that are served",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t := tabwriter.NewWriter(cmd.out, 0, 0, 2, ' ', 0)
			for _, r := range stack.Recipes() {
				fmt.Fprintf(t, "%s\t%s\n", r.Name, r.Doc)
				for _, s := range r.Settings {
					fmt.Fprintf(t, "\t%s=%d  %s, %d to %d\n", s.Name, s.Default, s.Doc, s.Min, s.Max)
				}
				fmt.Fprintf(t, "\topcache=on  PHP's opcode cache, on or off, in each environment\n")
			}
			all, err := stack.List("")
			if err != nil {
				return err
			}
			for _, s := range all {
				state := "installed"
				if !s.Current() {
					state = "outdated"
				}
				fmt.Fprintf(t, "%s\t%s, recipe %d, %s, %s, built %s\n", state, s.Spec, s.Version,
					unit.FormatSize(s.Bytes>>20<<20), s.Key[:12], s.Built.Format("2006-01-02"))
			}
			for _, s := range served() {
				fmt.Fprintf(t, "up\t%s in %s, http://%s, process %d\n", s.Stack, s.Environment, s.Address, s.owner.PID)
			}
			return t.Flush()
		},
	}
}

func (cmd *stackCommand) removeCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "remove [NAME...]", Short: "Remove installed stacks, by name, by NAME,SETTING=VALUE or by key",
		RunE: func(c *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usagef("name the stacks to remove, or say --all")
			}
			installed, err := stack.List("")
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range args {
				if !slices.ContainsFunc(installed, func(s stack.Stack) bool { return named(s, name) }) {
					errs = append(errs, fmt.Errorf("no stack %q is installed; see tare stack list", name))
				}
			}
			for _, s := range installed {
				if all || slices.ContainsFunc(args, func(name string) bool { return named(s, name) }) {
					errs = append(errs, s.Remove(), container.DropStack(c.Context(), s))
					fmt.Fprintln(cmd.out, "removed", s.Spec, s.Key[:12])
				}
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "remove all of them")
	return c
}

func named(s stack.Stack, name string) bool {
	return s.Recipe == name || s.Spec == name || len(name) >= 6 && strings.HasPrefix(s.Key, name)
}

func (cmd *stackCommand) upCommand() *cobra.Command {
	var where string
	c := &cobra.Command{
		Use: "up NAME[,SETTING=VALUE...]", Short: "Serve a stack in an environment until Ctrl-C or tare stack down",
		Long: `Install a stack if it is not installed, open an environment with it, start its servers, check its front page, and say where it
is reached. It is served until Ctrl-C, or until tare stack down. The addresses are on the environment's own loopback: with
namespace?net=host that is this machine's.

    tare stack up mediawiki --env 'box=namespace?net=host'`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			spec, err := stack.Parse(args[0])
			if err != nil {
				return usageError{err}
			}
			s, err := env.ParseSpec(where)
			if err != nil {
				return usageError{err}
			}
			if err := cmd.bare(s); err != nil {
				return usageError{err}
			}
			s = s.With(map[string]string{stack.SettingName: spec.String()})
			if err := cmd.drivers.Check(s); err != nil {
				return usageError{err}
			}
			if _, err := cmd.build(c.Context(), spec, false); err != nil {
				return err
			}
			return cmd.up(c.Context(), spec, s)
		},
	}
	c.Flags().StringVarP(&where, "env", "e", "box=namespace?net=host",
		"the environment: NAME[=DRIVER[:ARG][?key=value&...]]")
	return c
}

// bare returns an error with the right form for a name without a driver, unless it is nearly that of one.
func (cmd *stackCommand) bare(s env.Spec) error {
	_, known := cmd.drivers.Lookup(s.Driver)
	if known || s.Name != s.Driver || suggest.Nearest(s.Driver, append(cmd.drivers.Names(), env.Host)) != "" {
		return nil
	}
	return fmt.Errorf("environment %s: there is no driver %q; a new environment needs one after its name, such as "+
		"--env '%s=namespace?net=host'", s.Name, s.Driver, s.Name)
}

// up opens the environment, starts the site in it, and waits.
func (cmd *stackCommand) up(ctx context.Context, spec stack.Spec, s env.Spec) (err error) {
	cmd.holding("the stack is stopped")
	info, _ := cmd.drivers.Lookup(s.Driver)
	runID := newRunID()
	scratch, release, err := leftover.New(cmd.scratchBase(), runID)
	if err != nil {
		return fmt.Errorf("make the run's private directory: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	agents := deploy.NewStore(filepath.Join(scratch, "agents"))
	defer agents.Close()
	dir := filepath.Join(scratch, s.Name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	opening, cancel := proc.WithTimeout(ctx, info.Patience(s, openTime))
	defer cancel()
	opened, err := info.Driver.Open(opening, env.Options{Spec: s, RunID: runID, Dir: dir, Agents: agents,
		Log: cmd.log.With("env", s.Name)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	conn, err := deploy.Attach(opening, opened, runID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	cmd.progress("starting " + spec.String() + " in " + s.Name)
	state, err := cmd.serve(ctx, conn)
	if err != nil {
		return err
	}
	for _, front := range []string{"apache", "nginx", "varnish"} {
		fmt.Fprintf(cmd.out, "%-8s http://%s/\n", front, state["stack_"+front])
	}
	fmt.Fprintf(cmd.out, "cookie   %s\n", state["stack_cookie"])
	forget, err := note(spec, s, state["stack_apache"])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, forget()) }()
	fmt.Fprintln(cmd.err, "served until Ctrl-C or tare stack down")
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(upLook):
		}
		if _, err := cmd.serve(ctx, conn); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// upLook is the time between two looks at the front page of a stack that is served.
const upLook = 30 * time.Second

// serve asks for the front page once, which starts the stack if it does not run.
func (cmd *stackCommand) serve(ctx context.Context, conn *deploy.Conn) (map[string]string, error) {
	kind, _ := cmd.kind("http.get")
	params, err := kind.Resolve(map[string]string{"url": "stack:@front", "verify": "status", "connections": "1"})
	if err != nil {
		return nil, err
	}
	got, err := conn.Run(ctx, wire.Run{Job: wire.Job{Kind: kind.Name, Params: params, Cell: "stack", Seed: 1,
		Service: kind.ServiceKey(params)}, Work: 1})
	return got.Result.State, err
}

// up is a stack that is served, as it is noted for other processes.
type up struct {
	Owner       string `json:"owner"`
	Where       string `json:"where,omitempty"` // the machine and PID namespace of the owner
	Stack       string `json:"stack"`
	Environment string `json:"environment"`
	Address     string `json:"address"`
	owner       leftover.Owner
	path        string
}

func upFolder() (string, error) {
	cache, err := microvm.DefaultCache()
	return filepath.Join(cache, "stack", "up"), err
}

// note tells other processes of a stack that is served.
func note(spec stack.Spec, s env.Spec, address string) (forget func() error, err error) {
	self, err := leftover.Self()
	if err != nil {
		return nil, err
	}
	dir, err := upFolder()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	text, err := json.Marshal(up{Owner: self.String(), Where: self.Where, Stack: spec.String(), Environment: s.Name,
		Address: address})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, fmt.Sprintf("%d.json", self.PID))
	return func() error { return os.Remove(path) }, os.WriteFile(path, text, 0o600)
}

// served returns the stacks that are served. Notes of processes that were killed are removed.
func served() (all []up) {
	dir, err := upFolder()
	if err != nil {
		return nil
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*.json")) // the pattern is well-formed
	for _, path := range found {
		text, err := os.ReadFile(path)
		u := up{path: path}
		if err != nil || json.Unmarshal(text, &u) != nil {
			continue
		}
		u.owner, err = leftover.ParseOwner(u.Owner)
		if u.owner.Where = u.Where; err != nil || !u.owner.Alive() {
			os.Remove(path)
			continue
		}
		if !u.owner.Near() { // of another machine that shares the folder: nothing here can stop it
			continue
		}
		all = append(all, u)
	}
	return all
}

func (cmd *stackCommand) downCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "down [ENVIRONMENT...]", Short: "Stop stacks that tare stack up serves",
		Long: "Stop stacks that tare stack up serves, by the names of their environments. Returns when they have " +
			"stopped.",
		RunE: func(c *cobra.Command, args []string) error {
			running := served()
			switch {
			case all && len(args) > 0:
				return usagef("name environments, or say --all")
			case len(args) == 0 && !all && len(running) > 1:
				return usagef("%d stacks are served; name their environments, or say --all", len(running))
			}
			var errs []error
			for _, name := range args {
				if !slices.ContainsFunc(running, func(u up) bool { return u.Environment == name }) {
					errs = append(errs, fmt.Errorf("no stack is served in %q; see tare stack list", name))
				}
			}
			for _, u := range running {
				if len(args) > 0 && !slices.Contains(args, u.Environment) {
					continue
				}
				if err := end(c.Context(), u); err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintln(cmd.out, "stopped", u.Stack, "in", u.Environment)
			}
			if len(running) == 0 && len(args) == 0 {
				fmt.Fprintln(cmd.out, "no stack is served")
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "stop all of them")
	return c
}

// endTime bounds the wait for a stack to stop: its database is shut down.
const endTime = time.Minute

// end asks the process that serves a stack to stop, and waits until it has.
func end(ctx context.Context, u up) error {
	p, err := os.FindProcess(u.owner.PID)
	if err == nil {
		err = p.Signal(syscall.SIGTERM)
	}
	for deadline := time.Now().Add(endTime); err == nil && u.owner.Alive(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("stop %s in %s: process %d has not ended within %v", u.Stack, u.Environment, u.owner.PID,
				endTime)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err != nil {
		return fmt.Errorf("stop %s in %s: %w", u.Stack, u.Environment, err)
	}
	return nil
}
