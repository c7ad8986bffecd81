package vagrant

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/sys/proc"
)

// project is a folder with a Vagrantfile.
type project struct {
	root string
	data string // where Vagrant keeps what it knows of the machines
}

// dataFolder is where a project has Vagrant's data, unless VAGRANT_DOTFILE_PATH says otherwise.
const dataFolder = ".vagrant"

const noProject = "name the folder of a project with vagrant:PATH, or make a scratch machine with box=NAME"

// findProject finds the project that a folder belongs to, as Vagrant does: the Vagrantfile is in it or above.
func findProject(path string) (*project, error) {
	start, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(start); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder", start)
	}
	names := []string{"Vagrantfile", "vagrantfile"}
	if v := os.Getenv("VAGRANT_VAGRANTFILE"); v != "" {
		names = []string{v}
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		for _, n := range names {
			if info, err := os.Stat(filepath.Join(dir, n)); err == nil && info.Mode().IsRegular() {
				p := &project{root: dir, data: filepath.Join(dir, dataFolder)}
				if d := os.Getenv("VAGRANT_DOTFILE_PATH"); filepath.IsAbs(d) {
					p.data = d
				} else if d != "" {
					p.data = filepath.Join(dir, d)
				}
				return p, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return nil, fmt.Errorf("there is no Vagrantfile in %s or above", start)
		}
	}
}

// machines are the names of machines that were made.
func (p *project) machines() (names []string) {
	entries, _ := os.ReadDir(filepath.Join(p.data, "machines"))
	for _, e := range entries {
		if len(p.made(e.Name())) > 0 {
			names = append(names, e.Name())
		}
	}
	return names
}

// made are the providers that made a machine.
func (p *project) made(machine string) (providers []string) {
	entries, _ := os.ReadDir(filepath.Join(p.data, "machines", machine))
	for _, e := range entries {
		id := filepath.Join(p.data, "machines", machine, e.Name(), "id")
		if info, err := os.Stat(id); err == nil && info.Size() > 0 {
			providers = append(providers, e.Name())
		}
	}
	return providers
}

// maxData bounds a file of Vagrant's that is read.
const maxData = 1 << 20

// read reads one of Vagrant's files about a machine.
func (p *project) read(machine, provider, name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(p.data, "machines", machine, provider, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxData))
}

// boxFacts are the name and the version of the box that a machine was made of.
func (p *project) boxFacts(machine, provider string) map[string]string {
	text, err := p.read(machine, provider, "box_meta")
	var box struct{ Name, Version string }
	if err != nil || json.Unmarshal(text, &box) != nil {
		return nil
	}
	facts := map[string]string{}
	for k, v := range map[string]string{"vagrant.box": box.Name, "vagrant.box_version": box.Version} {
		if v != "" {
			facts[k] = proc.Line(v)
		}
	}
	return facts
}

// folder is a synced folder as Vagrant keeps it.
type folder struct {
	kind        string            // nfs, rsync, virtualbox, ...
	host, guest string            // absolute paths
	options     map[string]string // all others that Vagrant was given
}

// folders are the synced folders with which a machine was brought up last.
func (p *project) folders(machine, provider string) ([]folder, error) {
	text, err := p.read(machine, provider, "synced_folders")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // a machine without any
	}
	if err != nil {
		return nil, err
	}
	all, err := parseFolders(text)
	if err != nil {
		return nil, fmt.Errorf("read the synced folders of %s: %w", machine, err)
	}
	for i := range all {
		h := all[i].host
		if rest, ok := strings.CutPrefix(h, "~/"); ok {
			if home, err := os.UserHomeDir(); err == nil {
				h = filepath.Join(home, rest)
			}
		}
		if !filepath.IsAbs(h) {
			h = filepath.Join(p.root, h)
		}
		all[i].host = filepath.Clean(h)
	}
	return all, nil
}

// parseFolders reads Vagrant's file synced_folders: the folders by type and by name. It keeps no password.
func parseFolders(text []byte) ([]folder, error) {
	var types map[string]map[string]map[string]any
	if err := json.Unmarshal(text, &types); err != nil {
		return nil, err
	}
	var all []folder
	for kind, named := range types {
		for _, data := range named {
			f := folder{kind: proc.Line(kind), options: map[string]string{}}
			for k, v := range data {
				switch k {
				case "guestpath":
					f.guest, _ = v.(string)
				case "hostpath":
					f.host, _ = v.(string)
				default:
					if text := optionText(v); text != "" && !secret(k) {
						f.options[proc.Line(k)] = text
					}
				}
			}
			if strings.HasPrefix(f.guest, "/") && !strings.ContainsRune(f.guest, 0) && f.host != "" {
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, func(a, b folder) int {
		return strings.Compare(a.guest+"\x00"+a.kind+"\x00"+a.host, b.guest+"\x00"+b.kind+"\x00"+b.host)
	})
	return all, nil
}

// secret tells whether an option is no concern of a report: passwords, and what Vagrant notes for itself.
func secret(key string) bool {
	return strings.Contains(strings.ToLower(key), "password") || strings.HasPrefix(key, "__") ||
		key == "type" || key == "disabled" || strings.HasSuffix(key, "_exact") || strings.HasSuffix(key, "_uuid")
}

// optionText is an option's value in one line; "" for an option without one.
func optionText(v any) string {
	switch v := v.(type) {
	case nil, map[string]any:
		return ""
	case []any:
		var parts []string
		for _, e := range v {
			if t := optionText(e); t != "" {
				parts = append(parts, t)
			}
		}
		return strings.Join(parts, ",")
	default:
		text := proc.Line(fmt.Sprint(v))
		return strings.ToValidUTF8(text[:min(len(text), 1024)], "")
	}
}
