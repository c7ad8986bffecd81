// Package inventory reads Ansible's inventories: which hosts there are, in which groups, and how each is reached.
//
// It is opinionated about what concerns it: the variables of the connection. All others are passed over, and reading
// executes nothing and looks nothing up: no programs, no templates, no vaults. The forms are those of Ansible's manual,
// "How to build your inventory", and the JSON of its "Developing dynamic inventory". Only Ansible calls Ansible.
package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Host is one host of an inventory.
type Host struct {
	Name    string // as the inventory calls it
	Address string // what to connect to; the name where nothing else is said
	User    string // "" where the inventory does not say
	Port    int    // 0 where the inventory does not say
	Key     string // file of a private key; "" where the inventory does not say
}

// Bounds of the cost of an inventory, whatever it says.
const (
	MaxFile  = 16 << 20 // bytes
	maxHosts = 100_000
	maxDepth = 64 // of groups in groups
)

// group is one group while an inventory is read.
type group struct {
	hosts    []string
	children []string
	vars     map[string]string
}

// tree is an inventory as it was written.
type tree struct {
	groups map[string]*group
	order  []string                     // of the groups, as they first appear
	hosts  []string                     // as they first appear
	vars   map[string]map[string]string // of hosts
}

func newTree() *tree { return &tree{groups: map[string]*group{}, vars: map[string]map[string]string{}} }

// all is the group of all hosts, ungrouped that of the hosts in no other.
const all, ungrouped = "all", "ungrouped"

func (t *tree) group(name string) *group {
	g := t.groups[name]
	if g == nil {
		g = &group{vars: map[string]string{}}
		t.groups[name] = g
		t.order = append(t.order, name)
	}
	return g
}

// host adds a host, or variables to one.
func (t *tree) host(name string, vars map[string]string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if t.vars[name] == nil {
		if len(t.hosts) == maxHosts {
			return fmt.Errorf("more than %d hosts", maxHosts)
		}
		t.hosts = append(t.hosts, name)
		t.vars[name] = map[string]string{}
	}
	maps.Copy(t.vars[name], vars)
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > 253 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("%.60q is not the name of a host", name)
	}
	return nil
}

// Parse reads an inventory, as YAML where yaml says so, and returns its hosts in their order: of a group and all that
// it contains, or all of them where limit is "". The group_vars and host_vars of the folders beside it count: the
// inventory's, then the plan's, as a playbook's. Hosts whose connection is none of ssh's are an error.
func Parse(src []byte, yaml bool, limit string, beside ...fs.FS) ([]Host, error) {
	if len(src) > MaxFile {
		return nil, fmt.Errorf("it is longer than %d MiB", MaxFile>>20)
	}
	read := parseINI
	if yaml {
		read = parseYAML
	}
	t, err := read(src)
	if err != nil {
		return nil, err
	}
	return t.resolve(limit, beside...)
}

// resolve finds the members of the group and what counts for each.
func (t *tree) resolve(limit string, beside ...fs.FS) ([]Host, error) {
	if err := t.loops(); err != nil {
		return nil, err
	}
	if limit == "" {
		limit = all
	}
	member := map[string]bool{}
	if limit == all {
		for _, h := range t.hosts {
			member[h] = true
		}
	} else {
		if t.groups[limit] == nil {
			names := slices.Clone(t.order)
			slices.Sort(names)
			return nil, fmt.Errorf("there is no group %q; there are: %s", limit, strings.Join(names, ", "))
		}
		t.collect(limit, member)
	}
	files := &varsFiles{left: maxVarsFiles}
	inherited, err := t.inherit(files, beside, member)
	if err != nil {
		return nil, err
	}
	var out []Host
	for _, name := range t.hosts {
		if !member[name] {
			continue
		}
		vars := maps.Clone(inherited[name])
		if vars == nil {
			vars = map[string]string{}
		}
		maps.Copy(vars, t.vars[name]) // a variable of a host counts more than of any group
		for _, folder := range beside {
			own, err := files.of(folder, "host_vars", name)
			if err != nil {
				return nil, err
			}
			maps.Copy(vars, own)
		}
		h, err := connection(name, vars)
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", name, err)
		}
		out = append(out, h)
	}
	if len(out) == 0 {
		return nil, errors.New("it names no host")
	}
	return out, nil
}

// loops refuses groups that contain themselves.
func (t *tree) loops() error {
	const (
		walking = 1
		done    = 2
	)
	state := map[string]int{}
	var walk func(name string, depth int) error
	walk = func(name string, depth int) error {
		switch {
		case state[name] == walking:
			return fmt.Errorf("group %s contains itself", name)
		case state[name] == done:
			return nil
		case depth > maxDepth:
			return fmt.Errorf("group %s is %d groups deep", name, depth)
		}
		state[name] = walking
		if g := t.groups[name]; g != nil {
			for _, c := range g.children {
				if err := walk(c, depth+1); err != nil {
					return err
				}
			}
		}
		state[name] = done
		return nil
	}
	for _, name := range t.order {
		if err := walk(name, 0); err != nil {
			return err
		}
	}
	return nil
}

// collect marks the hosts of a group and of all that it contains.
func (t *tree) collect(name string, member map[string]bool) {
	seen := map[string]bool{}
	var walk func(name string)
	walk = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		if g := t.groups[name]; g != nil {
			for _, h := range g.hosts {
				member[h] = true
			}
			for _, c := range g.children {
				walk(c)
			}
		}
	}
	walk(name)
}

// inherit gives each of some hosts the variables of its groups: those of the group that contains others before those of
// the one that is contained, which count more; of groups side by side the later one in the alphabet counts more. What
// the files of variables say of a group counts more than what the inventory says of any, and of a later folder more
// than of an earlier one; what they say of all counts less than of others (Ansible's "Understanding variable
// precedence").
func (t *tree) inherit(files *varsFiles, beside []fs.FS, hosts map[string]bool) (map[string]map[string]string, error) {
	depth := map[string]int{}
	var walk func(name string, d int)
	walk = func(name string, d int) {
		if old, ok := depth[name]; ok && old >= d {
			return
		}
		depth[name] = d
		if g := t.groups[name]; g != nil {
			for _, c := range g.children {
				walk(c, d+1)
			}
		}
	}
	for _, name := range t.order {
		if name != all {
			walk(name, 1)
		}
	}
	depth[all], depth[ungrouped] = 0, 1
	walk(all, 0)
	order := slices.SortedFunc(maps.Keys(depth), func(a, b string) int {
		return cmp.Or(depth[a]-depth[b], strings.Compare(a, b))
	})
	out := map[string]map[string]string{}
	give := func(name string, vars map[string]string) {
		if len(vars) == 0 {
			return
		}
		for h := range t.members(name) {
			if hosts[h] {
				if out[h] == nil {
					out[h] = map[string]string{}
				}
				maps.Copy(out[h], vars)
			}
		}
	}
	for _, name := range order {
		if g := t.groups[name]; g != nil {
			give(name, g.vars)
		}
	}
	read := func(folder fs.FS, name string) error {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(t.members(name))), func(h string) bool { return hosts[h] }) {
			return nil // its files concern nobody
		}
		vars, err := files.of(folder, "group_vars", name)
		give(name, vars)
		return err
	}
	for _, names := range [][]string{order[:1], order[1:]} { // all is the first
		for _, folder := range beside {
			for _, name := range names {
				if err := read(folder, name); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// members are the hosts of a group and of all that it contains; of ungrouped those that are in no other group but all.
func (t *tree) members(name string) map[string]bool {
	out := map[string]bool{}
	switch name {
	case all:
		for _, h := range t.hosts {
			out[h] = true
		}
	case ungrouped:
		in := map[string]bool{}
		for name, g := range t.groups {
			if name != all && name != ungrouped {
				for _, h := range g.hosts {
					in[h] = true
				}
			}
		}
		for _, h := range t.hosts {
			out[h] = !in[h]
		}
		maps.DeleteFunc(out, func(_ string, is bool) bool { return !is })
	default:
		t.collect(name, out)
	}
	return out
}

// connection reads the variables that say how a host is reached. Those with ssh in their names are the older spelling.
func connection(name string, vars map[string]string) (Host, error) {
	get := func(names ...string) string {
		for _, n := range names {
			if v := strings.TrimSpace(vars[n]); v != "" {
				return v
			}
		}
		return ""
	}
	h := Host{Name: name, Address: name, User: get("ansible_user", "ansible_ssh_user"),
		Key: get("ansible_ssh_private_key_file", "ansible_private_key_file")}
	if a := get("ansible_host", "ansible_ssh_host"); a != "" {
		h.Address = a
	} else if host, port, ok := strings.Cut(name, ":"); ok && !strings.Contains(port, ":") {
		h.Address = host // NAME:PORT
		vars["ansible_port"] = port
	}
	if p := get("ansible_port", "ansible_ssh_port"); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return h, fmt.Errorf("ansible_port: %.20q is no port", p)
		}
		h.Port = int(n)
	}
	switch c := get("ansible_connection"); c {
	case "", "ssh", "smart", "paramiko", "paramiko_ssh":
	default:
		return h, fmt.Errorf("ansible_connection is %.40s, and only ssh is supported; name a group without this host",
			c)
	}
	for _, v := range []string{h.Address, h.User, h.Key} {
		if strings.Contains(v, "{{") {
			return h, fmt.Errorf("%.60q is a template, which is not filled in; write the value", v)
		}
	}
	return h, nil
}
