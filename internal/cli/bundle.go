package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/bundle/redact"
	"tare/internal/lab/leftover"
)

// opened is a bundle argument made into a folder to read from.
type opened struct {
	dir    string
	damage error // the archive was damaged; what could be read is in dir
	done   func()
}

// folder returns the folder of a bundle argument: itself, or where a packed one was unpacked to until done is called.
func (a *app) folder(path string) (opened, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return opened{dir: path, done: func() {}}, nil // what is wrong with it, opening it says
	}
	dir, release, err := leftover.New(a.scratchBase(), newRunID())
	if err != nil {
		return opened{}, fmt.Errorf("unpack %s: %w", path, err)
	}
	o := opened{dir: filepath.Join(dir, "bundle"), done: func() { release() }}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		o.done()
		return opened{}, fmt.Errorf("unpack %s: %w", path, err)
	}
	o.damage = bundle.ExtractWithin(context.Background(), path, o.dir, math.MaxInt64) // gone after this command
	if o.damage == nil {
		return o, nil
	}
	if _, err := bundle.Open(o.dir); err != nil {
		o.done()
		return opened{}, o.damage
	}
	fmt.Fprintf(a.err, "tare: %s; using what could be read\n", printableLine(o.damage.Error()))
	return o, nil
}

// bundleCommand is `tare bundle`.
type bundleCommand struct {
	*app
}

func (cmd *bundleCommand) command() *cobra.Command {
	c := &cobra.Command{Use: "bundle", Short: "Pack a bundle into one file, or unpack one"}
	c.AddCommand(cmd.packCommand(), cmd.unpackCommand())
	return c
}

func (cmd *bundleCommand) packCommand() *cobra.Command {
	var out string
	var masked bool
	var words []string
	c := &cobra.Command{
		Use: "pack BUNDLE", Short: "Pack a bundle into one .tare file",
		Long: `Pack a bundle into one file: a zstd-compressed tar of its folder. The bundle is verified first. Every command that takes
a bundle also takes such a file.

With --redact, tare replaces the names of hosts and users, paths that not every system has, IP and MAC addresses, UUIDs,
serial numbers and machine ids in every file, each name by the same pseudonym everywhere. The chain of trials is then
recomputed, and the manifest says so. tare finds names in the environments' specs and in text that looks like USER@HOST
or a full host name. Give other names, such as a customer's in a command line, with --redact-word. Unpack the file and
check it before you publish it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(words) > 0 && !masked {
				return usagef("--redact-word needs --redact")
			}
			o, err := cmd.folder(args[0])
			if err != nil {
				return err
			}
			defer o.done()
			if o.damage != nil {
				return o.damage
			}
			if out == "" {
				out = strings.TrimSuffix(filepath.Base(filepath.Clean(args[0])), bundle.Ext) + bundle.Ext
			}
			return cmd.pack(o.dir, out, masked, words)
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "the file to make [BUNDLE.tare]")
	c.Flags().BoolVar(&masked, "redact", false, "replace names of hosts and users, paths, addresses and serial numbers")
	c.Flags().StringArrayVar(&words, "redact-word", nil, "also replace this word (repeatable)")
	return c
}

func (cmd *bundleCommand) pack(dir, out string, masked bool, words []string) error {
	if !masked {
		return bundle.Pack(dir, out)
	}
	tmp, release, err := leftover.New(cmd.scratchBase(), newRunID())
	if err != nil {
		return fmt.Errorf("redact %s: %w", dir, err)
	}
	defer release()
	copied := filepath.Join(tmp, "bundle")
	if err := redact.Bundle(dir, copied, cmd.secrets(words)); err != nil {
		return err
	}
	b, err := bundle.Open(copied)
	if err != nil {
		return err
	}
	if err := bundle.Pack(copied, out); err != nil {
		return err
	}
	fmt.Fprintf(cmd.out, "%s: replaced%s\n", printableLine(out), counted(b.Manifest.Redacted))
	return nil
}

// secrets are the names of this machine and its user, which may stand in outputs without any form to tell them by.
func (con *console) secrets(words []string) redact.Secrets {
	s := redact.Secrets{Words: words}
	if h, err := os.Hostname(); err == nil {
		s.Hosts = append(s.Hosts, h)
	}
	if u, err := user.Current(); err == nil {
		s.Users = append(s.Users, u.Username)
	}
	for _, name := range []string{"USER", "LOGNAME", "SUDO_USER", "USERNAME"} {
		if v := con.getenv(name); v != "" {
			s.Users = append(s.Users, v)
		}
	}
	return s
}

// counted writes what redaction replaced, sorted.
func counted(n map[string]int) string {
	parts := []string{}
	for _, k := range sortedKeys(n) {
		if n[k] > 0 {
			parts = append(parts, fmt.Sprintf(" %d %s", n[k], printableLine(k)))
		}
	}
	if len(parts) == 0 {
		return " nothing: no names were found"
	}
	return strings.Join(parts, ",")
}

func (cmd *bundleCommand) unpackCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "unpack FILE", Short: "Unpack a .tare file into a folder",
		Long: `Unpack a packed bundle into its folder. The bundle is verified, and the folder is made completely or not at all; nothing
is overwritten. A file that contains anything but a bundle (other names, links, devices, too much data) is rejected.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "" {
				base := filepath.Base(args[0])
				if out = strings.TrimSuffix(base, bundle.Ext); out == base {
					return usagef("%s does not end in %s: name the folder with -o", args[0], bundle.Ext)
				}
			}
			return bundle.Unpack(args[0], out)
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "the folder to make [FILE without .tare]")
	return c
}
