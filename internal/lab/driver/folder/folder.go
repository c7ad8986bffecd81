// Package folder is for environments to which no mount can be added. Their mounts are directories that already exist,
// such as a second disk or a network drive that its owner has mounted.
//
// All work is done in a fresh directory below it. The agent makes and removes that directory.
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

// Dir is the name of the kind of mount that is an existing directory.
const Dir = "dir"

// DirKind is the kind of mount that is an existing directory. here says that the environment shares the controller's
// directories.
func DirKind(here bool) env.MountKind {
	return env.MountKind{
		Name: Dir, ArgDoc: "PATH", ArgNeeds: true, Shared: here, ArgHere: here,
		Doc: "An existing directory, such as another disk or a network drive; work is done in a new one in it.",
	}
}

// Given returns the mounts of an environment whose only kind is Dir. here says that the directories are the
// controller's; they are then checked now.
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
				Remedy: "use an existing directory: " + Dir + ":PATH"}
		}
		out = append(out, m)
	}
	return out
}

func check(path string, here bool) error {
	if !utf8.ValidString(path) {
		return fmt.Errorf("%q is not UTF-8, but paths are sent to the agent in UTF-8; rename it, or bind it to "+
			"another name", path)
	}
	if !here {
		if strings.HasPrefix(path, "/") || len(path) > 2 && path[1] == ':' {
			return nil // only the agent can check whether it exists
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
