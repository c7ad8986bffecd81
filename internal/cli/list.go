package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan/study"
	"tare/internal/suggest"
	"tare/internal/unit"
)

// listCommand is `tare list`.
type listCommand struct {
	*app
	flags struct {
		format string
	}
}

func (cmd *listCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use:   "list [environments|mounts|workloads|studies] [NAME]",
		Short: "List environments, mounts, workloads and studies with their settings and metrics",
		Long: `List the environments that tare can open and what it can measure in them. With a NAME, show everything about it:

    tare list
    tare list workloads fs.randread
    tare list environments qemu
    tare list mounts virtiofs`,
		Args:      cobra.MaximumNArgs(2),
		ValidArgs: listTopics,
		RunE: func(c *cobra.Command, args []string) error {
			if cmd.flags.format != "text" && cmd.flags.format != "json" {
				return usagef("--format is text or json, not %q", cmd.flags.format)
			}
			topic, name := "", ""
			if len(args) > 0 {
				topic = args[0]
			}
			if len(args) > 1 {
				name = args[1]
			}
			switch topic {
			case "", "environments", "mounts", "workloads", "studies":
			default:
				return usagef("there is no list %q%s", topic, suggest.MeantOrAll(topic, listTopics, "there are:"))
			}
			if cmd.flags.format == "json" {
				return cmd.listJSON()
			}
			lists := map[string]func(string) error{"environments": cmd.listEnvironments, "mounts": cmd.listMounts,
				"workloads": cmd.listWorkloads, "studies": cmd.listStudies}
			if topic != "" {
				return lists[topic](name)
			}
			for i, t := range listTopics {
				if i > 0 {
					fmt.Fprintln(cmd.out)
				}
				if err := lists[t](""); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&cmd.flags.format, "format", "text", "text or json")
	return c
}

// listTopics are the topics of tare list, in that order.
var listTopics = []string{"environments", "mounts", "workloads", "studies"}

// mountKinds returns the kinds of mounts over all drivers, each with the drivers that have it.
func (cat *catalog) mountKinds() (kinds []env.MountKind, drivers map[string][]string) {
	drivers = map[string][]string{}
	for _, d := range cat.drivers.All() {
		for _, m := range d.Mounts {
			if drivers[m.Name] == nil {
				kinds = append(kinds, m)
			}
			drivers[m.Name] = append(drivers[m.Name], d.Name)
		}
	}
	return kinds, drivers
}

func (cmd *listCommand) listMounts(name string) error {
	kinds, drivers := cmd.mountKinds()
	if name == "" {
		fmt.Fprintln(cmd.out, "Mounts: -m ENVIRONMENT:NAME[=KIND[:ARGUMENT][?key=value&...]]")
	}
	names := []string{}
	for _, m := range kinds {
		names = append(names, m.Name)
		form := m.Name
		if m.ArgDoc != "" {
			form += ":" + m.ArgDoc
		}
		switch name {
		case "":
			fmt.Fprintf(cmd.out, "  %-22s %s (%s)\n", form, firstSentence(m.Doc), strings.Join(drivers[m.Name], ", "))
		case m.Name:
			cmd.describeMount(m, drivers[m.Name])
			return nil
		}
	}
	if name != "" {
		return usagef("there is no mount %q%s", name, suggest.MeantOrAll(name, names, "there are:"))
	}
	return nil
}

func (cmd *listCommand) listStudies(name string) error {
	if name != "" {
		s, ok := study.Lookup(name)
		if !ok {
			return usagef("there is no study %q%s", name, suggest.MeantOrAll(name, study.Names(), "there are:"))
		}
		_, err := cmd.out.Write(s.Plan)
		return err
	}
	fmt.Fprintln(cmd.out, "Studies: --study NAME")
	for _, s := range study.All() {
		fmt.Fprintf(cmd.out, "  %-22s %s\n", s.Name, s.Question)
	}
	return nil
}

// describeMount tells everything about a kind of mount; settings may differ between the drivers that have it.
func (cmd *listCommand) describeMount(m env.MountKind, drivers []string) {
	fmt.Fprintf(cmd.out, "%s (in %s)\n%s\n", m.Name, strings.Join(drivers, ", "), wrap(m.Doc, 2, 96))
	if m.ArgDoc != "" {
		fmt.Fprintf(cmd.out, "\n  argument: %s\n", m.ArgDoc)
	}
	shown := map[string]bool{}
	for _, name := range drivers {
		d, _ := cmd.drivers.Lookup(name)
		kind, _ := d.MountKind(m.Name)
		for _, s := range kind.Settings {
			if !shown[s.Name] {
				if len(shown) == 0 {
					fmt.Fprintln(cmd.out, "\n  settings:")
				}
				shown[s.Name] = true
				printSetting(cmd.out, s)
			}
		}
	}
}

func (cmd *listCommand) listEnvironments(name string) error {
	if name != "" {
		d, ok := cmd.drivers.Lookup(name)
		if !ok {
			return usagef("there is no driver %q%s", name, suggest.MeantOrAll(name, cmd.drivers.Names(), "there are:"))
		}
		describeDriver(cmd.out, d)
		return nil
	}
	fmt.Fprintln(cmd.out, "Environments: -e NAME[=DRIVER[:ARGUMENT][?key=value&...]]")
	for _, d := range cmd.drivers.All() {
		form := d.Name
		if d.ArgDoc != "" {
			form += ":" + d.ArgDoc
		}
		fmt.Fprintf(cmd.out, "  %-22s %s\n", form, firstSentence(d.Doc))
	}
	return nil
}

func describeDriver(w io.Writer, d env.Info) {
	fmt.Fprintf(w, "%s\n%s\n", d.Name, wrap(d.Doc, 2, 96))
	if d.ArgDoc != "" {
		need := "optional"
		if d.ArgNeeds {
			need = "required"
		}
		fmt.Fprintf(w, "\n  argument: %s (%s)\n", d.ArgDoc, need)
	}
	if len(d.Settings) > 0 {
		fmt.Fprintln(w, "\n  settings:")
	}
	for _, s := range d.Settings {
		printSetting(w, s)
	}
	if len(d.Mounts) > 0 {
		names := []string{}
		for _, m := range d.Mounts {
			names = append(names, m.Name)
		}
		fmt.Fprintf(w, "\n  mounts: %s\n", strings.Join(names, ", "))
	}
}

func printSetting(w io.Writer, s env.Setting) {
	def, try := "", ""
	if s.Default != "" {
		def = " [" + s.Default + "]"
	}
	if len(s.Try) > 0 {
		try = " (tare sweep tries " + strings.Join(s.Try, ", ") + ")"
	}
	fmt.Fprintf(w, "    %-14s %s%s%s\n", s.Name, s.Doc, def, try)
}

func (cmd *listCommand) listWorkloads(name string) error {
	if name != "" {
		k, ok := cmd.kind(name)
		if !ok {
			names := []string{}
			for _, k := range cmd.kinds {
				names = append(names, k.Name)
			}
			return usagef("there is no workload %q%s", name, suggest.MeantOrAll(name, names, "there are:"))
		}
		describeKind(cmd.out, k)
		return nil
	}
	fmt.Fprintln(cmd.out, "Workloads: -w KIND[:key=value,...]")
	// The kinds of a family do not all stand next to each other in the table.
	var families []string
	of := map[string][]workload.Kind{}
	for _, k := range cmd.kinds {
		if of[k.Family] == nil {
			families = append(families, k.Family)
		}
		of[k.Family] = append(of[k.Family], k)
	}
	for _, family := range families {
		fmt.Fprintf(cmd.out, "  %s\n", family)
		for _, k := range of[family] {
			fmt.Fprintf(cmd.out, "    %-20s %s\n", k.Name, firstSentence(k.Doc))
		}
	}
	return nil
}

func describeKind(w io.Writer, k *workload.Kind) {
	fmt.Fprintf(w, "%s (%s; one unit of work is one %s)\n%s\n", k.Name, k.Family, k.WorkUnit, wrap(k.Doc, 2, 96))
	if len(k.Params) > 0 {
		fmt.Fprintln(w, "\n  parameters:")
	}
	for _, p := range k.Params {
		def := ""
		if p.Default != "" {
			def = " [" + p.Default + "]"
		}
		if len(p.Choices) > 0 {
			def += " one of " + strings.Join(p.Choices, ", ")
		}
		fmt.Fprintf(w, "    %-14s %s%s\n", p.Name, p.Doc, def)
	}
	fmt.Fprintln(w, "\n  metrics:")
	for _, m := range k.Metrics {
		mark := ""
		if m.Primary {
			mark = " (decides)"
		}
		fmt.Fprintf(w, "    %-22s %s; %s is better; %s%s\n", m.Name, m.Unit, m.Better, m.Doc, mark)
	}
}

// listJSON prints all tables. The manual's reference sections are made from it.
func (cmd *listCommand) listJSON() error {
	type setting struct {
		Name    string   `json:"name"`
		Default string   `json:"default,omitempty"`
		Doc     string   `json:"doc"`
		Try     []string `json:"try,omitempty"` // by tare sweep
	}
	type environment struct {
		Name     string    `json:"name"`
		Doc      string    `json:"doc"`
		Argument string    `json:"argument,omitempty"`
		Required bool      `json:"argument_required,omitempty"`
		Settings []setting `json:"settings"`
		Mounts   []string  `json:"mounts,omitempty"`
	}
	type mount struct {
		Name     string    `json:"name"`
		Doc      string    `json:"doc"`
		Drivers  []string  `json:"drivers"`
		Argument string    `json:"argument,omitempty"`
		Shared   bool      `json:"shared"`
		Sync     bool      `json:"sync"`
		Settings []setting `json:"settings"`
	}
	type parameter struct {
		Name     string   `json:"name"`
		Type     string   `json:"type"`
		Default  string   `json:"default,omitempty"`
		Required bool     `json:"required,omitempty"`
		Choices  []string `json:"choices,omitempty"`
		Doc      string   `json:"doc"`
	}
	type kind struct {
		Name       string        `json:"name"`
		Family     string        `json:"family"`
		Doc        string        `json:"doc"`
		WorkUnit   string        `json:"work_unit"`
		Parameters []parameter   `json:"parameters"`
		Metrics    []unit.Metric `json:"metrics"`
	}
	var l struct {
		Environments []environment `json:"environments"`
		Mounts       []mount       `json:"mounts"`
		Workloads    []kind        `json:"workloads"`
	}
	for _, d := range cmd.drivers.All() {
		e := environment{Name: d.Name, Doc: d.Doc, Argument: d.ArgDoc, Required: d.ArgNeeds, Settings: []setting{}}
		for _, s := range d.Settings {
			e.Settings = append(e.Settings, setting{s.Name, s.Default, s.Doc, s.Try})
		}
		for _, m := range d.Mounts {
			e.Mounts = append(e.Mounts, m.Name)
		}
		l.Environments = append(l.Environments, e)
	}
	kinds, drivers := cmd.mountKinds()
	for _, m := range kinds {
		j := mount{Name: m.Name, Doc: m.Doc, Drivers: drivers[m.Name], Argument: m.ArgDoc, Shared: m.Shared,
			Sync: m.Sync, Settings: []setting{}}
		for _, s := range m.Settings {
			j.Settings = append(j.Settings, setting{s.Name, s.Default, s.Doc, s.Try})
		}
		l.Mounts = append(l.Mounts, j)
	}
	for _, k := range cmd.kinds {
		w := kind{Name: k.Name, Family: k.Family, Doc: k.Doc, WorkUnit: k.WorkUnit, Parameters: []parameter{},
			Metrics: k.Metrics}
		for _, p := range k.Params {
			w.Parameters = append(w.Parameters, parameter{p.Name, string(p.Type), p.Default, p.Required, p.Choices,
				p.Doc})
		}
		l.Workloads = append(l.Workloads, w)
	}
	e := json.NewEncoder(cmd.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(l)
}

// firstSentence returns the first sentence of a text, which fits into a list.
func firstSentence(s string) string {
	if head, _, ok := strings.Cut(s, ". "); ok {
		return head
	}
	if strings.HasSuffix(s, "...") {
		return s
	}
	return strings.TrimSuffix(s, ".")
}

// wrap breaks text into lines of at most width columns, each indented.
func wrap(text string, indent, width int) string {
	var b strings.Builder
	pad := strings.Repeat(" ", indent)
	column := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case column == 0:
			b.WriteString(pad)
			column = indent
		case column+1+n > width:
			b.WriteString("\n" + pad)
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
