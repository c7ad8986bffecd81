package cli

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/lab/microvm"
	"tare/internal/lab/rootfs"
	"tare/internal/unit"
)

func (cmd *guestCommand) guestBuildCommand() *cobra.Command {
	o := rootfs.Options{}
	var size string
	c := &cobra.Command{
		Use: "build", Short: "Build a Debian root image for virtual machines",
		Long: `Build an image of a small Debian system with the packages you name: an ext4 file system in a plain file, made by mmdebstrap
(or debootstrap) from this machine's own apt sources, and kept in the user's cache. The same suite, packages and size are built
once; --refresh builds them again. Prints the path of the image. Needs root, because the image's files have other owners.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			n, err := unit.ParseSize(size)
			if err != nil {
				return usagef("--size: %v", err)
			}
			o.Size = n
			o.Progress = func(what string) { fmt.Fprintf(cmd.err, "%s ...\n", what) }
			cmd.holding("temporary files are removed")
			img, err := rootfs.Build(c.Context(), o)
			if _, ok := errors.AsType[*rootfs.OptionError](err); ok {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.out, img.Path)
			return nil
		},
	}
	c.Flags().StringSliceVar(&o.Packages, "packages", nil,
		"packages to add to the smallest system with apt: postgresql,bzip2")
	c.Flags().StringVar(&o.Suite, "suite", rootfs.DefaultSuite, "suite of Debian")
	c.Flags().StringVar(&o.Arch, "arch", runtime.GOARCH, strings.Join(microvm.Arches(), " or "))
	c.Flags().StringVar(&size, "size", unit.FormatSize(rootfs.DefaultSize),
		"size of the file system; free space in it uses no disk space")
	c.Flags().BoolVar(&o.Refresh, "refresh", false,
		"build an existing image again, with newer versions of the packages")
	return c
}
