// Package command is an environment behind a command line that runs other commands in it and connects their standard
// streams. It has presets for programs that manage virtual machines and containers.
package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"

	"tare/internal/lab/driver/folder"
	"tare/internal/lab/driver/remote"
	"tare/internal/lab/env"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/sys/shell"
)

// Infos lists the drivers of this package.
func Infos() []env.Info {
	infos := []env.Info{{
		Name: "command",
		Doc: "An environment behind a command line, which runs the words appended to it there: chroot, nsenter, " +
			"sudo, ssh, ...",
		Settings: append([]env.Setting{
			{Name: "argv", Doc: "The command line, split into words as in a shell without any expansion: chroot " +
				"/srv/debian (required).", Check: checkArgv, Names: env.NamesArgv},
			{Name: "quote", Default: "no", Doc: "sh: quote the words for a shell at the other side, as of ssh; no: " +
				"pass them unchanged.", Check: env.OneOf("no", "sh")},
			{Name: "put", Default: "cat",
				Doc:   "cat: the agent is sent through sh and cat; none: it is already there, at path.",
				Check: env.OneOf("cat", "none")},
			{Name: "path", Doc: "The agent's path, with put=none.", Check: checkAbs},
		}, common...),
		Mounts: []env.MountKind{folder.DirKind(false)},
		Driver: driver{},
		Nature: env.Nature{Files: env.FilesHost, Arg: env.NamesArgv},
		Probe: func(context.Context) env.Status {
			return env.Status{OK: true, Detail: "needs only the programs of the command line"}
		},
	}}
	for i := range presets {
		infos = append(infos, presets[i].info())
	}
	return infos
}

// common are the settings of all drivers of this package.
var common = []env.Setting{
	{Name: "dir", Default: "/var/tmp, $TMPDIR, /tmp or $HOME",
		Doc: "Directory there for the agent and for file workloads.", Check: checkAbs},
}

func checkArgv(v string) error {
	words, err := shell.Split(v)
	if err == nil && len(words) == 0 {
		err = errors.New("the command line is empty")
	}
	return err
}

func checkAbs(v string) error {
	if !path.IsAbs(v) {
		return fmt.Errorf("%q is not an absolute path", v)
	}
	return nil
}

// driver is the driver whose command line is a setting.
type driver struct{}

// Open puts an agent into the environment behind the command line.
func (driver) Open(ctx context.Context, o env.Options) (env.Env, error) {
	prefix, err := shell.Split(o.Get("argv", ""))
	if err == nil && len(prefix) == 0 {
		err = errors.New("the setting argv is missing")
	}
	t := target(o)
	if o.Get("put", "cat") == "none" {
		if t.Agent = o.Get("path", ""); t.Agent == "" && err == nil {
			err = errors.New("put=none needs the setting path: the path of the agent")
		}
	}
	if err != nil {
		return nil, &env.OpenError{Env: o.Name, Op: "read settings", Err: err,
			Remedy: "write for example command?argv=chroot /srv/debian"}
	}
	t.Argv = join(prefix)
	if o.Get("quote", "no") == "sh" {
		t.Argv = func(words ...string) []string { return join(prefix)(shell.Quote(words...)) }
	}
	t.Explain = explain(prefix[0], "")
	return remote.Open(ctx, t)
}

func target(o env.Options) remote.Target {
	return remote.Target{Options: o, Dir: o.Get("dir", ""), Facts: record.Facts{Settings: maps.Clone(o.Settings)}}
}

// join returns a function that appends words to a fixed prefix.
func join(prefix []string) func(words ...string) []string {
	return func(words ...string) []string {
		return append(append(make([]string, 0, len(prefix)+len(words)), prefix...), words...)
	}
}

// explain returns an Explain function for failures that all programs have in common.
func explain(program, install string) func(err error, said string) (string, error) {
	return func(err error, said string) (string, error) {
		switch {
		case isMissing(program):
			if install == "" {
				install = "install " + program + ", or correct the command line"
			}
			return install, fmt.Errorf("%s is not installed: %w", program, err)
		case strings.TrimSpace(said) == "":
			return "run the command line by hand with uname -s -m after it: it must print only the output of uname", err
		}
		return "", nil
	}
}

func isMissing(program string) bool {
	_, err := proc.LookPath(program)
	return err != nil
}
