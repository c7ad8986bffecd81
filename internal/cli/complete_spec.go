package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
)

// open are words that go on behind what is offered: no space follows.
func open(words []string) ([]string, cobra.ShellCompDirective) {
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeName offers the names of targets that the command line has so far.
func (cp *completer) completeName(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return done(cp.targetNames(c, args, true))
}

// targetNames are the names of environments, and of mounts where they are wanted, of the plan and the flags.
func (cp *completer) targetNames(c *cobra.Command, args []string, mounts bool) []string {
	var names []string
	for _, e := range cp.planned(c, args).Targets {
		if e.Like == "" && (mounts || !e.IsMount()) {
			names = append(names, e.Name)
		}
	}
	for _, text := range given(c, "env") {
		if s, err := env.ParseSpec(text); err == nil && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	if mounts {
		for _, text := range given(c, "mount") {
			if of, s, err := env.ParseMount(text); err == nil {
				names = append(names, of+":"+s.Name)
			}
		}
	}
	return names
}

// completeEnvironment completes NAME[=DRIVER[:ARG][?key=value&...]].
func (cp *completer) completeEnvironment(c *cobra.Command, args []string,
	typed string) ([]string, cobra.ShellCompDirective) {
	if body, query, ok := strings.Cut(typed, "?"); ok {
		driver := body[nameEnd(body):]
		driver, _, _ = strings.Cut(driver, ":")
		info, ok := cp.drivers.Lookup(env.DriverNamed(driver))
		if !ok {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return settings(body+"?", query, info.Settings)
	}
	name := typed[:nameEnd(typed)]
	var out []string
	if name == "" {
		for _, e := range cp.planned(c, args).Targets {
			out = append(out, e.Name)
		}
		out = append(out, described(env.Host, "this machine"))
	}
	for _, d := range cp.drivers.All() {
		word := name + d.Name
		if d.ArgNeeds {
			word += ":"
		}
		out = append(out, described(word, d.Doc))
	}
	return open(out)
}

// nameEnd is the offset at which the driver begins: behind NAME=, or at the beginning.
func nameEnd(spec string) int {
	if i := strings.IndexAny(spec, "=:?"); i >= 0 && spec[i] == '=' {
		return i + 1
	}
	return 0
}

// completeMount completes ENVIRONMENT:NAME[=KIND[:ARG][?key=value&...]].
func (cp *completer) completeMount(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	of, rest, ok := strings.Cut(typed, ":")
	if !ok {
		names := cp.targetNames(c, args, false)
		for i := range names {
			names[i] += ":"
		}
		return open(names)
	}
	kinds := cp.kindsIn(c, args, of)
	if body, query, ok := strings.Cut(rest, "?"); ok {
		kind, _, _ := strings.Cut(body[nameEnd(body):], ":")
		if i := slices.IndexFunc(kinds, func(k env.MountKind) bool { return k.Name == kind }); i >= 0 {
			return settings(of+":"+body+"?", query, kinds[i].Settings)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	begin := of + ":" + rest[:nameEnd(rest)]
	var out []string
	for _, k := range kinds {
		word := begin + k.Name
		if k.ArgNeeds {
			word += ":"
		}
		out = append(out, described(word, k.Doc))
	}
	return open(out)
}

// kindsIn are the kinds of mounts that an environment of the command line can have; all of them where it is not known.
func (cp *completer) kindsIn(c *cobra.Command, args []string, of string) []env.MountKind {
	driver := ""
	if e, ok := cp.planned(c, args).Target(of); ok {
		driver = e.Spec.Driver
	}
	for _, text := range given(c, "env") {
		if s, err := env.ParseSpec(text); err == nil && s.Name == of {
			driver = s.Driver
		}
	}
	if d, ok := cp.drivers.Lookup(driver); ok {
		return d.Mounts
	}
	kinds, _ := cp.mountKinds()
	return kinds
}

// settings completes key=value&key=value behind before.
func settings(before, query string, all []env.Setting) ([]string, cobra.ShellCompDirective) {
	var keys []key
	for i := range all {
		keys = append(keys, key{all[i].Name, all[i].Doc, values(&all[i])})
	}
	return pairs(before, query, "&", keys)
}

// key is one that may stand before a value, with the values that can be listed.
type key struct {
	name, doc string
	values    []string
}

// pairs completes key=value pairs behind before: the key, or the value of the last one.
func pairs(before, query, separator string, keys []key) ([]string, cobra.ShellCompDirective) {
	cut := strings.LastIndex(query, separator) + 1
	before += query[:cut]
	name, _, valued := strings.Cut(query[cut:], "=")
	var out []string
	for _, k := range keys {
		switch {
		case valued && k.name == name:
			for _, v := range k.values {
				out = append(out, before+name+"="+v)
			}
		case !valued && !slices.Contains(keysOf(query[:cut], separator), k.name):
			out = append(out, described(before+k.name+"=", k.doc))
		}
	}
	return open(out)
}

// keysOf are the keys of key=value pairs.
func keysOf(pairs, separator string) []string {
	var keys []string
	for pair := range strings.SplitSeq(pairs, separator) {
		key, _, _ := strings.Cut(pair, "=")
		keys = append(keys, key)
	}
	return keys
}

var wordRE = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9._+-]*`)

// values are the values of a setting that its own description names and its own check accepts. A setting that takes any
// word has none to offer but its default.
func values(s *env.Setting) []string {
	var out []string
	if s.Default != "" {
		out = append(out, s.Default)
	}
	if s.Check == nil || s.Check("no-such-word") == nil {
		return out
	}
	for _, word := range wordRE.FindAllString(s.Doc, -1) {
		word = strings.TrimRight(word, ".-+")
		if s.Check(word) == nil && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// completeBeside completes [NAME=]ENVIRONMENT:KIND[:key=value,...].
func (cp *completer) completeBeside(c *cobra.Command, args []string,
	typed string) ([]string, cobra.ShellCompDirective) {
	place, work, ok := strings.Cut(typed, ":")
	if !ok {
		var out []string
		for _, name := range cp.targetNames(c, args, true) {
			out = append(out, typed[:nameEnd(typed)]+name+":")
		}
		return open(out)
	}
	var out []string
	if !strings.Contains(work, ":") {
		for i := range cp.kinds {
			out = append(out, described(place+":"+cp.kinds[i].Name, cp.kinds[i].Doc))
		}
		return open(out)
	}
	words, how := cp.completeWorkload(c, args, work)
	for _, w := range words {
		out = append(out, place+":"+w)
	}
	return out, how
}

// completeWorkload completes KIND[:key=value,...].
func (cp *completer) completeWorkload(c *cobra.Command, args []string,
	typed string) ([]string, cobra.ShellCompDirective) {
	name, query, ok := strings.Cut(typed, ":")
	if !ok {
		var out []string
		for _, w := range cp.planned(c, args).Workloads {
			out = append(out, described(w.Label, "of the plan"))
		}
		for i := range cp.kinds {
			if k := &cp.kinds[i]; !slices.Contains(out, k.Name) {
				out = append(out, described(k.Name, k.Doc))
			}
		}
		return open(out)
	}
	kind, ok := cp.kind(name)
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var keys []key
	for i := range kind.Params {
		keys = append(keys, key{kind.Params[i].Name, kind.Params[i].Doc, choices(&kind.Params[i])})
	}
	return pairs(name+":", query, ",", keys)
}

// choices are the values of a parameter that can be listed, the default first.
func choices(p *workload.Param) []string {
	var out []string
	if p.Default != "" {
		out = append(out, p.Default)
	}
	all := p.Choices
	if p.Type == workload.Bool {
		all = []string{"true", "false"}
	}
	for _, v := range all {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
