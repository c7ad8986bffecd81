package inventory

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Bounds of the cost of the files of variables beside an inventory.
const (
	maxVarsFile  = 4 << 20
	maxVarsFiles = 20_000
)

// varsExtensions are the names that a file of variables may have, as Ansible tries them: the first that is there.
var varsExtensions = []string{"", ".yml", ".yaml", ".json"}

// varsFiles reads the folders group_vars and host_vars beside an inventory or a plan.
type varsFiles struct {
	left int // how many more files may be read
}

// of returns the variables of the connection that the folder has for a group or a host: those of a file of its name,
// or of all files in a folder of its name, the later ones in the alphabet over the earlier.
func (v *varsFiles) of(beside fs.FS, folder, name string) (map[string]string, error) {
	if strings.ContainsAny(name, "/\\") {
		return nil, nil
	}
	for _, ext := range varsExtensions {
		file := path.Join(folder, name+ext)
		info, err := fs.Stat(beside, file)
		switch {
		case err != nil:
		case !info.IsDir():
			return v.read(beside, file)
		case ext == "":
			return v.folder(beside, file)
		}
	}
	return nil, nil
}

// folder reads all files of variables below one, those of Ansible's names alone.
func (v *varsFiles) folder(beside fs.FS, dir string) (map[string]string, error) {
	out := map[string]string{}
	err := fs.WalkDir(beside, dir, func(file string, d fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), "~")
		switch {
		case err != nil:
			return err
		case d.IsDir() && hidden && file != dir:
			return fs.SkipDir
		case d.IsDir() || hidden || !slices.Contains(varsExtensions, path.Ext(file)):
			return nil
		}
		vars, err := v.read(beside, file)
		maps.Copy(out, vars)
		return err
	})
	return out, err
}

func (v *varsFiles) read(beside fs.FS, file string) (map[string]string, error) {
	if v.left--; v.left < 0 {
		return nil, fmt.Errorf("more than %d files of variables", maxVarsFiles)
	}
	f, err := beside.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxVarsFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	case len(src) > maxVarsFile:
		return nil, fmt.Errorf("%s: it is longer than %d MiB", file, maxVarsFile>>20)
	case bytes.HasPrefix(src, []byte("$ANSIBLE_VAULT;")):
		return nil, fmt.Errorf("%s: it is in a vault, which is not opened; --ansible has Ansible read it", file)
	}
	r, err := newYAML(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	out := map[string]string{}
	for _, body := range r.bodies {
		vars, err := r.variables(body, "the file")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, name := range ours {
			if value, ok := vars[name]; ok {
				out[name] = value
			}
		}
	}
	return out, nil
}

// address divides a host's name or range from the port behind it, as Ansible does: NAME:PORT, ADDRESS:PORT with an
// address of IPv6 in brackets, or an address of IPv6 with or without brackets.
func address(pattern string) (name, port string) {
	if inner, rest, ok := strings.Cut(strings.TrimPrefix(pattern, "["), "]"); ok && pattern[0] == '[' {
		if _, err := netip.ParseAddr(inner); err == nil && (rest == "" || rest[0] == ':' && digits(rest[1:])) {
			return inner, strings.TrimPrefix(rest, ":")
		}
	}
	at := strings.LastIndexByte(pattern, ':')
	if at < 1 || !digits(pattern[at+1:]) || strings.IndexByte(pattern[at:], ']') >= 0 {
		return pattern, ""
	}
	if strings.Contains(bracketed.ReplaceAllString(pattern[:at], ""), ":") { // an address of IPv6
		return pattern, ""
	}
	return pattern[:at], pattern[at+1:]
}

// bracketed are the ranges of a pattern.
var bracketed = regexp.MustCompile(`\[[^]]*]`)

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
