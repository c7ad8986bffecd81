package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/run/collect"
)

// fleetCommand is `tare fleet`.
type fleetCommand struct {
	*app
}

func (cmd *fleetCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "fleet", Short: "Measure many machines and judge them together",
		Long: `Measure many machines by one plan and judge them together: what the work costs across them, what it would cost on a
further machine of the kind, which machines lie apart, and in what these differ.

On a Slurm cluster, "tare fleet run" does all of it. Elsewhere each host runs the whole plan by itself (tare fleet shard)
and leaves a bundle, whatever starts that: ssh, GNU parallel, a matrix of GitLab's or GitHub's. Bring the bundles to one
machine and collect them there.

    tare fleet run plan.yaml --on slurm -o nodes
    tare fleet shard 3/40 plan.yaml            on the third of 40 hosts
    tare fleet collect nodes bundles/*         on any machine
    tare fleet report nodes`,
	}
	c.AddCommand((&fleetRunCommand{app: cmd.app}).command(), (&fleetShardCommand{app: cmd.app}).command(),
		(&fleetCollectCommand{app: cmd.app}).command(), (&fleetReportCommand{app: cmd.app}).command(),
		(&fleetHeldCommand{app: cmd.app}).command())
	return c
}

// hostList reads the value of --hosts: names with commas between them, or the name of a file that has one on each line.
func hostList(value string) ([]string, error) {
	if value == "" {
		return nil, nil
	}
	src, isFile, err := hostsFile(value)
	if err != nil {
		return nil, err
	}
	from := value
	if !isFile {
		src, from = []byte(strings.ReplaceAll(value, ",", "\n")), "--hosts"
	}
	hosts, err := collect.ParseHosts(src)
	if err != nil {
		return nil, usagef("%s: %v", from, err)
	}
	return hosts, nil
}

// hostsFile reads the file that --hosts names, if it is one.
func hostsFile(value string) (src []byte, isFile bool, err error) {
	info, err := os.Stat(value)
	if err != nil && looksLikeFile(value) {
		return nil, false, usagef("--hosts: there is no file %s, and no host is called so", value)
	}
	if err == nil && info.IsDir() && strings.ContainsRune(value, '/') {
		return nil, false, usagef("--hosts: %s is a folder; name a file", value)
	}
	if err != nil || info.IsDir() {
		return nil, false, nil
	}
	if !info.Mode().IsRegular() {
		return nil, false, usagef("--hosts: %s is not a file", value)
	}
	if info.Size() > collect.MaxHostsFile {
		return nil, false, usagef("--hosts: %s is longer than %d MiB", value, collect.MaxHostsFile>>20)
	}
	if src, err = os.ReadFile(value); err != nil {
		return nil, false, usageError{fmt.Errorf("--hosts: %w", err)}
	}
	return src, true, nil
}

// looksLikeFile tells a file's name from names of hosts.
func looksLikeFile(value string) bool {
	if strings.ContainsAny(value, ",[") {
		return false
	}
	endings := []string{".ini", ".yml", ".yaml", ".txt", ".json"}
	return strings.ContainsRune(value, '/') || slices.Contains(endings, strings.ToLower(filepath.Ext(value)))
}
