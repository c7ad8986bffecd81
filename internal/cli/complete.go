package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/judge/fleet"
	"tare/internal/measure/dbserver"
	"tare/internal/plan"
	"tare/internal/plan/study"
	"tare/internal/run/tracing"
	"tare/internal/sys/energy"
	"tare/internal/sys/sql"
)

// completer tells a shell what may come next on the command line.
type completer struct{ *app }

// completions gives every command's flags and arguments what a shell may offer for them. What a spec may hold comes
// from the tables that check it, so that it cannot fall behind them.
func (cp *completer) completions(c *cobra.Command) {
	type completer = cobra.CompletionFunc
	for flag, complete := range map[string]completer{
		"env":            cp.completeEnvironment,
		"environment":    cp.completeEnvironment,
		"mount":          cp.completeMount,
		"beside":         cp.completeBeside,
		"workload":       cp.completeWorkload,
		"worth-workload": completeNothing,
		"baseline":       cp.completeName,
		"study": func(*cobra.Command, []string,
			string) ([]string, cobra.ShellCompDirective) {
			return done(studies())
		},
		"energy":  fixed(energy.Auto, energy.RAPL, energy.Battery),
		"resume":  completeFolder,
		"format":  completeFormat,
		"by":      completeBy,
		"fail-on": fixed(failIgnores, failWeakens),
		"server":  fixed(string(dbserver.MariaDB), string(dbserver.MySQL), string(dbserver.PostgreSQL)),
		"tls":     fixed(sql.TLSOff, sql.TLSRequire, sql.TLSVerify),
		"log":     fixed("general", "slow"),
		"per":     fixed("core-ghz", "core", "ghz", "watt-hour", "price"),
		"on":      fixed(engines()...),
		"sbatch":  completeSbatch,
	} {
		if c.Flags().Lookup(flag) == nil {
			continue
		}
		// It can only fail for a flag that is not there or has one already; the first is ruled out.
		if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
			continue
		}
	}
	_, takes, _ := strings.Cut(c.Use, " ")
	switch {
	case c.ValidArgsFunction != nil:
	case strings.HasPrefix(takes, "BUNDLE"):
		many := strings.Contains(takes, "BUNDLE BUNDLE") || strings.Contains(takes, "...")
		c.ValidArgsFunction = func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 && !many {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return bundles(typed, true)
		}
	case strings.HasPrefix(takes, "DIR [BUNDLE"):
		c.ValidArgsFunction = func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return bundles(typed, true)
		}
	case takes == "DIR", takes == "FLEET":
		c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
	case takes == "FILE":
		c.ValidArgsFunction = files(bundle.Ext[1:])
	case takes == "[PLAN]", takes == "PLAN", strings.HasPrefix(takes, "PLAN --"):
		c.ValidArgsFunction = files("yaml", "yml")
	case takes == "K/N PLAN":
		c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return files("yaml", "yml")(c, args[1:], typed)
		}
	case takes == "PLAN...":
		c.ValidArgsFunction = func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return files("yaml", "yml")(c, nil, typed)
		}
	case strings.HasPrefix(takes, "[environments|"):
		c.ValidArgs, c.ValidArgsFunction = nil, cp.completeList
	case takes == "" && !c.HasSubCommands():
		c.ValidArgsFunction = completeNothing
	}
	for _, s := range c.Commands() {
		cp.completions(s)
	}
}

// done are words that are complete: a space follows, and no file name is offered beside them.
func done(words []string) ([]string, cobra.ShellCompDirective) {
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completeSbatch offers the options of sbatch that a plan's section slurm has as well.
func completeSbatch(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return plan.SbatchOptions(), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

func fixed(words ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return done(words) }
}

// files offers files that end in one of the suffixes, once.
func files(suffixes ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return suffixes, cobra.ShellCompDirectiveFilterFileExt
	}
}

func completeNothing(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func studies() []string {
	var out []string
	for _, s := range study.All() {
		out = append(out, described(s.Name, s.Question))
	}
	return out
}

// described is a word with what it means, as shells show it.
func described(word, doc string) string { return cobra.CompletionWithDesc(word, firstSentence(doc)) }

// completeBy offers the ways of tracing, or of telling hosts apart.
func completeBy(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	if c.Name() == "qualify" || c.Parent() != nil && c.Parent().Name() == "fleet" {
		return done([]string{string(fleet.ByMachine), string(fleet.ByName)})
	}
	return done(tracing.Ways())
}

// completeFormat offers the formats that a command says it has: those of a comparison are fewer than a report's.
func completeFormat(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	name := c.Name()
	if c.Parent() != nil && c.Parent().Name() == "fleet" {
		name = "fleet-" + name
	}
	switch name {
	case "report":
		return done(formats())
	case "compare":
		return done(comparisonFormats())
	case "fleet-report":
		return done(fleetFormats())
	case "qualify":
		return done(qualifyFormats())
	case "list", "why":
		return done([]string{"text", "json"})
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// completeFolder offers the folders of bundles: a run goes on in no packed one.
func completeFolder(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return bundles(typed, false)
}

// bundles offers the bundles that a path begins, and the folders on the way to more of them.
func bundles(typed string, packed bool) ([]string, cobra.ShellCompDirective) {
	dir, begin := filepath.Split(typed)
	from := dir
	if from == "" {
		from = "."
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found, ways []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, begin) || strings.HasPrefix(name, ".") && begin == "" {
			continue
		}
		path := dir + name
		info, err := os.Stat(filepath.Join(from, name)) // through a link
		switch {
		case err != nil:
		case !info.IsDir():
			if packed && strings.HasSuffix(name, bundle.Ext) {
				found = append(found, path)
			}
		default:
			if _, err := os.Stat(filepath.Join(path, bundle.ManifestFile)); err == nil {
				found = append(found, path)
			} else {
				ways = append(ways, path+string(filepath.Separator))
			}
		}
	}
	if len(found) > 0 {
		return done(found)
	}
	return ways, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeList offers the topics of `tare list`, and then the names of one.
func (cp *completer) completeList(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	switch {
	case len(args) == 0:
		return done(listTopics)
	case len(args) > 1:
	case args[0] == "environments":
		for _, d := range cp.drivers.All() {
			out = append(out, described(d.Name, d.Doc))
		}
	case args[0] == "mounts":
		kinds, _ := cp.mountKinds()
		for _, k := range kinds {
			out = append(out, described(k.Name, k.Doc))
		}
	case args[0] == "workloads":
		for i := range cp.kinds {
			out = append(out, described(cp.kinds[i].Name, cp.kinds[i].Doc))
		}
	case args[0] == "studies":
		out = studies()
	}
	return done(out)
}

// planned is the plan that a command line names as its argument or by --study, or one of nothing.
func (cp *completer) planned(c *cobra.Command, args []string) *plan.Plan {
	var src []byte
	name := ""
	if f := c.Flags().Lookup("study"); f != nil && f.Changed {
		if s, ok := study.Lookup(f.Value.String()); ok {
			name, src = s.Name, s.Plan
		}
	} else if len(args) > 0 && strings.HasPrefix(c.Use, "run ") {
		name = args[0]
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() { // a pipe would be waited for
			src, _ = readPlan(name)
		}
	}
	if src != nil {
		if p, err := plan.Parse(name, src, cp.tables()); err == nil {
			return p
		}
	}
	return &plan.Plan{}
}

// given are the values so far of a flag that can be repeated.
func given(c *cobra.Command, flag string) []string {
	values, err := c.Flags().GetStringArray(flag)
	if err != nil {
		return nil
	}
	return slices.Clone(values)
}
