package plan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
)

// Example writes a commented plan for `tare init`: the available environments (specs, as for -e) and a first set of
// workloads are live, everything else the tables offer stands there as a comment. Parse accepts it. An available spec
// that the tables do not accept is left out.
func Example(t Tables, available []string) []byte {
	var b bytes.Buffer
	b.WriteString(`# A plan for tare: which environments to compare, and by which work.
# Start it with: tare run plan.yaml        What it would do: tare plan explain plan.yaml
#
# Editors complete and check this file by the next line, once "tare plan schema -o plan.schema.json" was run beside it.
# yaml-language-server: $schema=plan.schema.json

name: first look
# question: Does the container cost anything?   # the headline; all cells below are one family of comparisons
mode: quick          # quick: trials of 0.3 s, up to 30 blocks; full: trials of 1 s, up to 60 blocks
# budget: 10m        # stop after this long; cells that are not decided then are INCONCLUSIVE
# blocks: 20         # most blocks for each workload
# seed: 7            # repeat a random order; drawn and recorded when not given
# margin: 2%         # the smallest difference that matters
# sessions: 5        # open the environments this often, for claims beyond "on this boot"
# slurm: { partition: batch, time: 2h }   # for the jobs of tare fleet run --on slurm

`)
	specs := exampleSpecs(t, available)
	baseline := specs[0].Name
	for _, s := range specs {
		if s.Name == env.Host {
			baseline = env.Host
		}
	}
	fmt.Fprintf(&b, "baseline: %s\nenvironments:\n", yamlText(baseline))
	for _, s := range specs {
		fmt.Fprintf(&b, "  %s: %s\n", yamlText(s.Name), yamlText(s.String()))
	}
	exampleDrivers(&b, t)
	b.WriteString("\n# The work to run in each; a kind alone uses the defaults in brackets (`tare list workloads` " +
		"explains each parameter).\n# With other parameters: `- fs.randread: { size: 1GiB, bs: 64KiB }`. A kind may " +
		"be listed several times.\nworkloads:\n")
	live := 0
	for i := range t.Kinds {
		if exampleKind(&b, &t.Kinds[i]) {
			live++
		}
	}
	if live == 0 {
		b.WriteString("  []\n")
	}
	return b.Bytes()
}

func exampleSpecs(t Tables, available []string) []env.Spec {
	var specs []env.Spec
	for _, text := range available {
		s, err := env.ParseSpec(text)
		known := slices.ContainsFunc(specs, func(o env.Spec) bool { return o.Name == s.Name })
		if err == nil && !known && t.Drivers.Check(s) == nil {
			specs = append(specs, s)
		}
	}
	if len(specs) == 0 {
		specs = append(specs, env.HostSpec())
	}
	return specs
}

// exampleDrivers names every driver and its settings in comments.
func exampleDrivers(b *bytes.Buffer, t Tables) {
	b.WriteString(`
  # An environment is NAME: DRIVER[:ARG][?key=value&...], or a mapping; another may derive from it with changes:
  # changed: { from: NAME, key: value }
  # The drivers, and their settings with their defaults (` + "`tare list environments`" + ` explains each):
`)
	for _, d := range t.Drivers.All() {
		arg := ""
		if d.ArgDoc != "" {
			arg = ":" + d.ArgDoc
		}
		comment(b, "  # ", d.Name+arg+" - "+firstSentence(d.Doc))
		var settings []string
		for _, s := range d.Settings {
			settings = append(settings, withDefault(s.Name, s.Default))
		}
		if len(settings) > 0 {
			comment(b, "  #     ", strings.Join(settings, ", "))
		}
	}
}

// exampleKind writes one kind with its parameters as a comment. A kind that needs a parameter, one
// that environments need a setting for, and the one for tests stand there as comments altogether.
func exampleKind(b *bytes.Buffer, k *workload.Kind) (live bool) {
	defaults := defaultParams(k)
	_, err := k.Resolve(nil)
	live = err == nil && k.Family != workload.FamilyTest && !k.Needs.Peer
	prefix := ""
	if !live {
		prefix = "# "
	}
	fmt.Fprintf(b, "  %s- %s\n", prefix, k.Name)
	comment(b, "  #     ", firstSentence(k.Doc))
	var params []string
	for _, d := range k.Params {
		name := withDefault(d.Name, defaults[d.Name])
		if d.Required {
			name += " (required)"
		}
		params = append(params, name)
	}
	if len(params) > 0 {
		comment(b, "  #     ", "Parameters: "+strings.Join(params, ", "))
	}
	return live
}

func withDefault(name, value string) string {
	if value == "" {
		return name
	}
	return name + " [" + value + "]"
}

func firstSentence(doc string) string {
	s, _, more := strings.Cut(strings.Join(strings.Fields(doc), " "), ". ")
	if more {
		s += "."
	}
	return s
}

// comment writes text as comment lines of at most 100 columns.
func comment(b *bytes.Buffer, prefix, text string) {
	line := prefix
	for _, word := range strings.Fields(text) {
		if len(line)+len(word) > 100 && line != prefix {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = prefix + "  "
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
