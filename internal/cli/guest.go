package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/lab/microvm"
	"tare/internal/lab/rootfs"
	"tare/internal/unit"
)

// guestCommand is `tare guest`.
type guestCommand struct {
	*app
}

func (cmd *guestCommand) command() *cobra.Command {
	c := &cobra.Command{Use: "guest", Short: "Kernels for the micro-VM, root images, boot media"}
	var arch, flavour string
	fetch := &cobra.Command{
		Use: "fetch", Short: "Fetch a kernel with the distribution's package tool",
		Long: `Fetch a kernel for the micro-VM with this distribution's package tool, without installing anything: the package is
downloaded, checked by the package tool, and the kernel and the few modules the micro-VM needs are kept in the user's cache.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cache, err := microvm.DefaultCache()
			if err != nil {
				return err
			}
			if flavour == "" {
				flavour = microvm.DefaultFlavour(arch)
			}
			if !slices.Contains(microvm.Arches(), arch) || !slices.Contains(microvm.Flavours(), flavour) {
				return usagef("--arch is one of %s and --flavour one of %s", strings.Join(microvm.Arches(), ", "),
					strings.Join(microvm.Flavours(), ", "))
			}
			cmd.holding("temporary files are removed")
			k, err := microvm.Fetch(c.Context(), cache, arch, flavour)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.out, "%s %s %s\n", k.Arch, k.Flavour, k.Release)
			return nil
		},
	}
	fetch.Flags().StringVar(&arch, "arch", runtime.GOARCH, strings.Join(microvm.Arches(), " or "))
	fetch.Flags().StringVar(&flavour, "flavour", "", "cloud (small) or generic (every driver, 9p included) "+
		"[cloud, where there is one]")
	list := &cobra.Command{
		Use: "list", Short: "List the kernels and root images on this machine", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cache, err := microvm.DefaultCache()
			if err != nil {
				return err
			}
			all, err := microvm.List(cache)
			if err != nil {
				return err
			}
			for _, k := range all {
				fmt.Fprintf(cmd.out, "%-8s %-8s %s\n", k.Arch, k.Flavour, k.Release)
			}
			if len(all) == 0 {
				fmt.Fprintln(cmd.out, "no kernel; get one: tare guest fetch")
			}
			images, err := rootfs.List(cache)
			if err != nil {
				return err
			}
			for _, i := range images {
				fmt.Fprintf(cmd.out, "%-8s %-8s %s root image with %s\n", i.Arch, i.Suite, unit.FormatSize(i.Size),
					cmp.Or(strings.Join(i.Packages, ","), "no further packages"))
			}
			return nil
		},
	}
	c.AddCommand(fetch, cmd.guestBuildCommand(), list, cmd.guestMediaCommand())
	return c
}
