package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// jsonGroup is a group as `ansible-inventory --list` and dynamic inventories write it.
type jsonGroup struct {
	Hosts    []string                   `json:"hosts"`
	Children []string                   `json:"children"`
	Vars     map[string]json.RawMessage `json:"vars"`
}

// ParseJSON reads what `ansible-inventory --list` prints, and any dynamic inventory: groups by name, with their hosts,
// children and variables, and in _meta the variables of hosts. It returns the hosts as Parse does.
func ParseJSON(src []byte, limit string) ([]Host, error) {
	if len(src) > MaxFile {
		return nil, fmt.Errorf("it is longer than %d MiB", MaxFile>>20)
	}
	var groups map[string]json.RawMessage
	if err := json.Unmarshal(bytes.TrimPrefix(src, []byte("\ufeff")), &groups); err != nil {
		return nil, jsonError(src, err)
	}
	t := newTree()
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if name == "_meta" {
			continue
		}
		if err := t.jsonGroup(name, groups[name]); err != nil {
			return nil, fmt.Errorf("group %.60q: %w", name, err)
		}
	}
	var meta struct {
		HostVars map[string]map[string]json.RawMessage `json:"hostvars"`
	}
	if text, ok := groups["_meta"]; ok {
		if err := json.Unmarshal(text, &meta); err != nil {
			return nil, fmt.Errorf("_meta: %w", err)
		}
	}
	for _, name := range t.hosts { // variables of others concern nobody
		vars, err := jsonVars(meta.HostVars[name])
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", name, err)
		}
		maps.Copy(t.vars[name], vars)
	}
	return t.resolve(limit)
}

// jsonError says in which line the text is none.
func jsonError(src []byte, err error) error {
	if at, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + strings.Count(string(src[:min(int(at.Offset), len(src))]), "\n")
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// jsonGroup reads one group: an object, or in the oldest form a list of hosts.
func (t *tree) jsonGroup(name string, text json.RawMessage) error {
	if err := checkName(name); err != nil {
		return errors.New("it is not the name of a group")
	}
	var read jsonGroup
	if err := json.Unmarshal(text, &read.Hosts); err != nil {
		read.Hosts = nil
		if err := json.Unmarshal(text, &read); err != nil {
			return err
		}
	}
	g := t.group(name)
	for _, h := range read.Hosts {
		if err := t.host(h, nil); err != nil {
			return err
		}
		g.hosts = append(g.hosts, h)
	}
	for _, c := range read.Children {
		if checkName(c) != nil {
			return fmt.Errorf("%.60q is not the name of a group", c)
		}
		t.group(c)
		g.children = append(g.children, c)
	}
	vars, err := jsonVars(read.Vars)
	maps.Copy(g.vars, vars)
	return err
}

// jsonVars are the variables of the connection, as text.
func jsonVars(in map[string]json.RawMessage) (map[string]string, error) {
	out := map[string]string{}
	for name, text := range in {
		if !strings.HasPrefix(name, "ansible_") {
			continue
		}
		var v any
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		if o, ok := v.(map[string]any); ok && len(o) == 1 { // text in which Ansible looks for no templates
			if s, ok := o["__ansible_unsafe"]; ok {
				v = s
			}
		}
		switch v := v.(type) {
		case string:
			out[name] = v
		case json.Number:
			out[name] = v.String()
		case nil:
		case map[string]any:
			if _, ok := v["__ansible_vault"]; ok && slices.Contains(ours, name) {
				return nil, fmt.Errorf("%s is in a vault, which is not opened; write the value", name)
			}
		}
	}
	return out, nil
}

// ours are the variables that connection reads.
var ours = []string{"ansible_host", "ansible_ssh_host", "ansible_port", "ansible_ssh_port", "ansible_user",
	"ansible_ssh_user", "ansible_ssh_private_key_file", "ansible_private_key_file", "ansible_connection"}
