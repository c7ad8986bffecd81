package mount

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/unit"
)

// job is the start of one server. Its steps are undone if the start fails, and when the server is closed.
type job struct {
	Request
	settings map[string]string // defaults included
	dir      string            // private to this mount, below Request.Dir
	undo     []func() error

	op, remedy string // for the error
	evidence   []byte
}

// moreRoom is the remedy if files cannot be written.
const moreRoom = "free some space, or set TMPDIR to a folder with more space"

func serve(ctx context.Context, r Request) (*Served, error) {
	j := &job{Request: r}
	if j.Log == nil {
		j.Log = slog.New(slog.DiscardHandler)
	}
	s, err := j.serve(ctx)
	if err != nil {
		if _, ok := errors.AsType[*pathError](err); ok {
			j.remedy = elsewhere
		}
		err = errors.Join(err, j.close())
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, &env.OpenError{Env: r.Name, Op: j.op, Err: err, Remedy: j.remedy, Evidence: j.evidence}
	}
	return s, nil
}

func (j *job) serve(ctx context.Context) (*Served, error) {
	j.op, j.remedy = "read settings", "tare list mounts shows the kinds of mounts and their settings"
	k, ok := lookup(j.Driver)
	if !ok {
		return nil, fmt.Errorf("there is no mount %q", j.Driver)
	}
	if err := j.read(k.Settings); err != nil {
		return nil, err
	}
	j.op, j.remedy = "make the server's folder", moreRoom
	if !filepath.IsAbs(j.Folder) || !filepath.IsAbs(j.Dir) {
		return nil, fmt.Errorf("folders %q and %q must be absolute paths", j.Folder, j.Dir)
	}
	if info, err := os.Stat(j.Folder); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%q is not a folder", j.Folder)
	}
	var err error
	// The name is short, because the path of a socket must fit into about 100 bytes.
	if j.dir, err = os.MkdirTemp(j.Dir, "m"); err != nil {
		return nil, err
	}
	j.undo = append(j.undo, func() error { return os.RemoveAll(j.dir) })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := k.serve(ctx, j)
	if err != nil {
		return nil, err
	}
	s.Mount.Kind, s.Mount.HostDir, s.Mount.Settings = k.Name, j.Folder, j.settings
	if s.Order != nil {
		s.Order.Name, s.Order.Network = j.Name, s.Network
		s.Mount.Dir = s.Order.Dir
	}
	s.Close = sync.OnceValue(j.close)
	return s, nil
}

// close undoes the steps of the start, the last first.
func (j *job) close() error {
	var errs []error
	for _, f := range slices.Backward(j.undo) {
		errs = append(errs, f())
	}
	j.undo = nil
	return errors.Join(errs...)
}

// read checks the settings again, after the registry, because they become arguments of privileged programs.
func (j *job) read(declared []env.Setting) error {
	j.settings = map[string]string{}
	for _, d := range declared {
		v, given := j.Settings[d.Name]
		if given && d.Check != nil {
			if err := d.Check(v); err != nil {
				return fmt.Errorf("setting %s: %w", d.Name, err)
			}
		}
		j.settings[d.Name] = j.Get(d.Name, d.Default)
	}
	for name := range j.Settings {
		if _, ok := j.settings[name]; !ok {
			return fmt.Errorf("%s has no setting %q", j.Driver, name)
		}
	}
	if _, given := j.Settings["dir"]; !given {
		j.settings["dir"] = strings.TrimSuffix(j.settings["dir"], placeholder) + j.Name
	}
	return nil
}

// get returns a setting that the kind declares; its default if it was not given.
func (j *job) get(name string) string { return j.settings[name] }

// on tells whether a setting of "on" and "off" is on.
func (j *job) on(name string) bool { return j.settings[name] == "on" }

// file is the path of one of the server's files.
func (j *job) file(name string) string { return filepath.Join(j.dir, name) }

// write writes a file that only this user can read.
func (j *job) write(name, text string) error {
	return os.WriteFile(j.file(name), []byte(text), 0o600)
}

// placeholder stands for the mount's name in the default of the setting dir.
const placeholder = "NAME"

// settingDir declares the mount's directory in the guest.
func settingDir() env.Setting {
	return env.Setting{Name: "dir", Default: guestabi.Mounts + "/" + placeholder,
		Doc: "Its directory in the guest: an absolute path of letters, digits and ._-/.", Check: checkGuestDir}
}

// checkGuestDir accepts only plain paths: they become options of mount programs, which have no common way of quoting.
func checkGuestDir(v string) error {
	if len(v) > 200 || !strings.HasPrefix(v, "/") || filepath.Clean(v) != v ||
		strings.ContainsFunc(v, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/", r)
		}) {
		return fmt.Errorf("%q is not an absolute path of at most 200 letters, digits and ._-/ without a slash at "+
			"its end", v)
	}
	for _, own := range []string{"/", "/dev", "/proc", "/sys", guestabi.Modules, guestabi.Scratch, guestabi.Init} {
		if v == own || own != "/" && own != guestabi.Scratch && strings.HasPrefix(v, own+"/") {
			return fmt.Errorf("%s is used by the guest itself; use a folder below %s", v, guestabi.Mounts)
		}
	}
	return nil
}

func onOff() func(string) error { return env.OneOf("on", "off") }

// number checks a whole number. what names the quantity in errors.
func number(least, most int64, what string) func(string) error {
	return func(v string) error {
		if n, err := parseNumber(v); err != nil || n < least || n > most {
			return fmt.Errorf("%q is not %s from %d to %d", v, what, least, most)
		}
		return nil
	}
}

// sized checks a size in bytes, with or without a unit.
func sized(least, most int64) func(string) error {
	return func(v string) error {
		n, err := unit.ParseSize(v)
		if err != nil {
			return err
		}
		if n < least || n > most {
			return fmt.Errorf("%q is not a size from %s to %s", v, unit.FormatSize(least), unit.FormatSize(most))
		}
		return nil
	}
}
