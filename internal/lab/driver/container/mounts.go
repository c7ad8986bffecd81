package container

import (
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	dirs "tare/internal/lab/driver/folder"
	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/record"
	"tare/internal/unit"
)

// The kinds of mounts of a container that tare makes. A container that runs already has only folder.Dir.
const (
	bind   = "bind"
	volume = "volume"
	tmpfs  = "tmpfs"
)

func mountKinds(engine string) []env.MountKind {
	return []env.MountKind{
		{
			Name: bind, Shared: true,
			Doc: "A directory of the host, bound into the container. The engine must run on this machine; if it runs " +
				"in a virtual machine (Docker Desktop), the directory must be shared with that machine.",
			Settings: []env.Setting{
				{Name: "dir", Default: "the run's own directory",
					Doc: "directory of the host on whose file system the folder is made; a new directory is made " +
						"in it",
					Check: env.CheckAbsolute},
				{Name: "label", Default: "none", Doc: "SELinux label: none, private (Z) or shared (z)",
					Check: env.OneOf("none", "private", "shared")},
			},
		},
		{Name: volume, Doc: "A volume that the engine keeps outside the container's layers: an anonymous one, " +
			"removed with the container."},
		{
			Name: tmpfs, Doc: "A file system in memory (tmpfs).",
			Settings: []env.Setting{{Name: "size", Default: "the engine's", Doc: "largest size, such as 1GiB",
				Check: env.CheckMemory}},
		},
		dirs.DirKind(false),
	}
}

// mounts are the folders of one container.
type mounts struct {
	all     []env.Mounted
	options []string // of create
	release []func() error
}

// mountPoint is the path of a mount in the container.
func mountPoint(name string) string { return "/tare-mounts/" + name }

// prepare makes the host's side of the mounts and the options of create for them. If one fails, the others still work.
func (ms *mounts) prepare(e engine, o *env.Options) {
	for _, s := range o.Mounts {
		if s.Driver == dirs.Dir {
			ms.all = append(ms.all, dirs.Given([]env.Spec{s}, o.Name, false)...)
			continue
		}
		m := env.Mounted{Name: s.Name, Mount: record.Mount{Kind: s.Driver, Dir: mountPoint(s.Name),
			Settings: maps.Clone(s.Settings)}}
		var options []string
		switch s.Driver {
		case bind:
			m.Mount.HostDir, options, m.Err = ms.bind(e, o, &s)
		case volume:
			options = []string{"--volume", m.Mount.Dir}
		case tmpfs:
			// Engines mount a tmpfs noexec, but a build may run programs that it made.
			v := m.Mount.Dir + ":rw,exec,mode=1777"
			if size := s.Get("size", ""); size != "" {
				n, _ := unit.ParseSize(size) // checked with the plan
				v += ",size=" + strconv.FormatInt(n, 10)
			}
			options = []string{"--tmpfs", v}
		default:
			m.Err = &env.OpenError{Env: o.Name + ":" + s.Name, Op: "make mount",
				Err: fmt.Errorf("%s has no mount %q", e.name, s.Driver), Remedy: "`tare list mounts` shows them"}
		}
		if m.Err == nil {
			ms.options = append(ms.options, options...)
		}
		ms.all = append(ms.all, m)
	}
}

// bind makes the folder to bind.
func (ms *mounts) bind(e engine, o *env.Options, s *env.Spec) (dir string, options []string, err error) {
	fail := func(err error, remedy string) (string, []string, error) {
		return "", nil, &env.OpenError{Env: o.Name + ":" + s.Name, Op: "make folder to bind", Err: err, Remedy: remedy}
	}
	if far := remoteDaemon(o.Get("host", "")); far != "" {
		return fail(fmt.Errorf("the engine runs at %s, and a bind mount shows folders of that machine only",
			far), "use a volume, or run tare there")
	}
	if base := s.Get("dir", ""); base != "" {
		var release func() error
		if dir, release, err = leftover.New(base, o.RunID); err == nil {
			ms.release = append(ms.release, release)
		}
	} else if dir, err = os.MkdirTemp(o.Dir, "bind-"); err == nil {
		made := dir
		ms.release = append(ms.release, func() error { return leftover.Remove(made) })
	}
	if err == nil {
		err = os.Chmod(dir, 0o777) // the container's user may be another one; the parent directory keeps others out
	}
	if err != nil {
		return fail(err, "choose a directory you may write to with the setting dir=PATH of the mount")
	}
	if !utf8.ValidString(dir) {
		return fail(fmt.Errorf("the engine needs paths in UTF-8, but %q is not UTF-8", dir),
			"set TMPDIR to a folder whose path is UTF-8, or choose one with the setting dir=PATH of the mount")
	}
	fields := []string{"type=bind", "src=" + dir, "dst=" + mountPoint(s.Name)}
	if l := s.Get("label", "none"); l != "none" {
		if e.name != "podman" {
			return fail(fmt.Errorf("label=%s works only with Podman", l), "leave label out with docker")
		}
		fields = append(fields, map[string]string{"private": "relabel=private", "shared": "relabel=shared"}[l])
	}
	// The engines parse the option as a line of CSV.
	var line strings.Builder
	w := csv.NewWriter(&line)
	w.Write(fields)
	w.Flush()
	return dir, []string{"--mount", strings.TrimSuffix(line.String(), "\n")}, nil
}

// remoteDaemon returns the other machine that an engine's address names; "" if it is this machine or not known.
func remoteDaemon(address string) string {
	if address == "" {
		address = os.Getenv("DOCKER_HOST")
	}
	for _, scheme := range []string{"tcp://", "ssh://", "http://", "https://"} {
		rest, ok := strings.CutPrefix(address, scheme)
		if host, _, _ := strings.Cut(rest, ":"); ok && host != "localhost" && host != "127.0.0.1" && host != "[" {
			return address
		}
	}
	return ""
}

func (ms *mounts) close() error {
	var errs []error
	for _, release := range ms.release {
		errs = append(errs, release())
	}
	ms.release = nil
	return errors.Join(errs...)
}
