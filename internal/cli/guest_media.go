package cli

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/lab/deploy"
	"tare/internal/lab/leftover"
	"tare/internal/lab/medium"
	"tare/internal/lab/microvm"
	"tare/internal/measure/guestabi"
	"tare/internal/suggest"
)

func (cmd *guestCommand) guestMediaCommand() *cobra.Command {
	o := medium.Options{Common: true}
	var output, kernel string
	c := &cobra.Command{
		Use: "media", Short: "Write a medium that boots the agent in any virtual machine",
		Long: `Write a medium that boots tare's agent in any x86 virtual machine: under BIOS and UEFI, as a CD and as a disk, without
kernel arguments, guest additions or network. The agent waits for a controller on the guest's first serial port, which
the driver "serial" connects to. Prints the kernel that is on it.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if output == "" {
				return usagef("-o is missing: the file to write")
			}
			if o.Format != "" && !slices.Contains(medium.Formats(), o.Format) {
				return usagef("--format is one of %s%s", strings.Join(medium.Formats(), ", "),
					suggest.DidYouMean(o.Format, medium.Formats()))
			}
			o.Format = cmp.Or(o.Format, mediaFormat(output))
			if o.Baud < 50 {
				return usagef("--baud is the speed of the serial port, such as 115200")
			}
			if kernel != "" {
				found, err := microvm.Find("", "amd64", kernel)
				if err != nil && slices.Contains(microvm.Flavours(), kernel) {
					return fmt.Errorf("%w; %s", err, microvm.Remedy("amd64", kernel))
				}
				if err != nil {
					return err
				}
				o.Kernel = found[0]
			}
			dir, release, err := leftover.New("", newRunID())
			if err != nil {
				return fmt.Errorf("make a directory to work in: %w", err)
			}
			defer func() { err = errors.Join(err, release()) }()
			store := deploy.NewStore(filepath.Join(dir, "agents"))
			defer store.Close()
			o.Agents = store
			cmd.holding("temporary files are removed")
			w, err := medium.Write(c.Context(), output, o)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.out, "%s %s %s\n", output, o.Format, w.Kernel.Release)
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&output, "output", "o", "", "the file to write")
	f.StringVar(&o.Format, "format", "", strings.Join(medium.Formats(), ", ")+" (default: the file's ending, or iso)")
	f.StringVar(&kernel, "kernel", "",
		"flavour, release or path of a kernel; cloud boots faster, generic has more drivers")
	f.StringVar(&o.Port, "port", "ttyS0", "the guest's serial port for the connection to the controller; "+
		"a virtio-serial port that is called "+guestabi.Port+" goes before it")
	f.IntVar(&o.Baud, "baud", 115200, "its speed; most virtual ones ignore it")
	f.StringVar(&o.Scratch, "scratch", "",
		"serial number, or /dev/NAME, of a disk with an ext4 for files of workloads; without it they are in memory")
	f.StringSliceVar(&o.Modules, "modules", nil, "further kernel modules that the guest loads")
	f.StringArrayVar(&o.Args, "append", nil, "further kernel arguments")
	f.BoolVar(&o.Interpreted, "interpreted", false,
		"add kernel arguments for a guest whose processor is interpreted; they change figures of a real one")
	return c
}

func mediaFormat(output string) string {
	if e := strings.TrimPrefix(filepath.Ext(output), "."); slices.Contains(medium.Formats(), e) {
		return e
	}
	return "iso"
}
