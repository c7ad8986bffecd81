// Package folder is the part of mounts that environments share which cannot be given new ones: a directory that is
// there already, such as a second disk or a network drive that its owner has mounted.
//
// Everything that is done in it happens in a fresh directory below it, made and removed by the agent.
package folder

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"tare/internal/lab/env"
	"tare/internal/record"
)

// Dir is the name of the kind of mount that is a directory that exists.
const Dir = "dir"

// DirKind is the kind of mount that is a directory that exists. here says that the environment sees the controller's
// own directories.
func DirKind(here bool) env.MountKind {
	return env.MountKind{
		Name: Dir, ArgDoc: "PATH", ArgNeeds: true, Shared: here,
		Doc: "An existing directory, such as another disk or a network drive; a new directory is made in it.",
	}
}

// Given returns the mounts of an environment whose only kind is Dir. here says that
// the directories are the controller's, which are looked at now.
func Given(specs []env.Spec, name string, here bool) []env.Mounted {
	var out []env.Mounted
	for _, s := range specs {
		m := env.Mounted{Name: s.Name, Mount: record.Mount{Kind: s.Driver, Dir: s.Arg,
			Settings: maps.Clone(s.Settings)}}
		if here {
			m.Mount.HostDir = s.Arg
		}
		if err := check(s.Arg, here); err != nil {
			m.Err = &env.OpenError{Env: name + ":" + s.Name, Op: "find directory", Err: err,
				Remedy: "name an existing directory: " + Dir + ":PATH"}
		}
		out = append(out, m)
	}
	return out
}

func check(path string, here bool) error {
	if !utf8.ValidString(path) {
		return fmt.Errorf("%q is not UTF-8, which is how paths travel to the agent; rename it, or bind it to "+
			"another name", path)
	}
	if !here {
		if strings.HasPrefix(path, "/") || len(path) > 2 && path[1] == ':' {
			return nil // whether it is there, the agent will see
		}
		return fmt.Errorf("%q is not an absolute path", path)
	}
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: %w", path, errors.New("not a directory"))
	}
	return err
}
