package inventory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"tare/internal/sys/proc"
)

const ini = `# the example of the manual, more or less
mail.example.com ansible_user=postmaster # a remark

[webservers]
web[01:03].example.com ansible_port=2222
alias ansible_host=192.0.2.50 ansible_user="the user"

[dbservers]
db-[a:b].example.com
alias

[leipzig:children]
webservers
dbservers

[leipzig:vars]
ansible_user=leo
ansible_ssh_private_key_file = /keys/leipzig
some_other={{ ignored }}

[dbservers:vars]
ansible_user=dba
`

const asYAML = `all:
  hosts:
    mail.example.com: {ansible_user: postmaster}
  children:
    leipzig:
      vars: {ansible_user: leo, ansible_ssh_private_key_file: /keys/leipzig, list: [1, 2], some_other: "{{ ignored }}"}
      children:
        webservers:
          hosts:
            web[01:03].example.com:
              ansible_port: 2222
            alias:
              ansible_host: 192.0.2.50
              ansible_user: the user
        dbservers:
          vars:
            ansible_user: dba
          hosts:
            db-[a:b].example.com:
            alias:
`

func names(hosts []Host) string {
	var out []string
	for _, h := range hosts {
		out = append(out, h.Name)
	}
	return strings.Join(out, " ")
}

// TestBothForms holds that one inventory in both forms says the same.
func TestBothForms(t *testing.T) {
	want := map[string]Host{
		"mail.example.com":  {"mail.example.com", "mail.example.com", "postmaster", 0, ""},
		"web01.example.com": {"web01.example.com", "web01.example.com", "leo", 2222, "/keys/leipzig"},
		"alias":             {"alias", "192.0.2.50", "the user", 0, "/keys/leipzig"},
		"db-a.example.com":  {"db-a.example.com", "db-a.example.com", "dba", 0, "/keys/leipzig"},
	}
	for form, src := range map[bool]string{false: ini, true: asYAML} {
		got, err := Parse([]byte(src), form, "")
		if err != nil || len(got) != 7 {
			t.Fatalf("yaml %v: %d hosts, %v", form, len(got), err)
		}
		for _, h := range got {
			if w, ok := want[h.Name]; ok && !reflect.DeepEqual(h, w) {
				t.Errorf("yaml %v: %+v, want %+v", form, h, w)
			}
		}
		got, err = Parse([]byte(src), form, "dbservers")
		if err != nil || len(got) != 3 {
			t.Errorf("yaml %v: dbservers are %q, %v", form, names(got), err)
		}
		if _, err := Parse([]byte(src), form, "leibzig"); err == nil || !strings.Contains(err.Error(), "leipzig") {
			t.Errorf("yaml %v: of a group that is not there: %v", form, err)
		}
	}
}

// asJSON is what ansible-inventory 2.14 prints for the inventory above.
const asJSON = `{
  "_meta": {"hostvars": {
    "alias": {"ansible_host": "192.0.2.50", "ansible_port": null, "ansible_user": {"__ansible_unsafe": "the user"},
      "ansible_ssh_private_key_file": "/keys/leipzig", "some_other": "{{ ignored }}"},
    "db-a.example.com": {"ansible_ssh_private_key_file": "/keys/leipzig", "ansible_user": "dba"},
    "db-b.example.com": {"ansible_ssh_private_key_file": "/keys/leipzig", "ansible_user": "dba"},
    "mail.example.com": {"ansible_user": "postmaster"},
    "web01.example.com": {"ansible_port": 2222, "ansible_ssh_private_key_file": "/keys/leipzig", "ansible_user": "leo"},
    "web02.example.com": {"ansible_port": 2222}, "web03.example.com": {"ansible_port": "2222"},
    "nowhere": {"ansible_connection": "local"}}},
  "all": {"children": ["ungrouped", "leipzig"]},
  "dbservers": {"hosts": ["db-a.example.com", "db-b.example.com", "alias"]},
  "leipzig": {"children": ["webservers", "dbservers"]},
  "ungrouped": {"hosts": ["mail.example.com"]},
  "webservers": {"hosts": ["web01.example.com", "web02.example.com", "web03.example.com", "alias"]}
}`

// TestJSON holds that it says what the other forms say.
func TestJSON(t *testing.T) {
	for limit, members := range map[string]int{"": 7, "dbservers": 3, "leipzig": 6, "ungrouped": 1} {
		want, err := Parse([]byte(ini), false, strings.ReplaceAll(limit, "ungrouped", ""))
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]Host{}
		for _, h := range want {
			by[h.Name] = h
		}
		got, err := ParseJSON([]byte(asJSON), limit)
		if err != nil || len(got) != members {
			t.Fatalf("%q: %d hosts, %v", limit, len(got), err)
		}
		for _, h := range got {
			if h.Name == "web02.example.com" || h.Name == "web03.example.com" { // said less of above
				h.User, h.Key = "leo", "/keys/leipzig"
			}
			if h != by[h.Name] {
				t.Errorf("%q: %+v, want %+v", limit, h, by[h.Name])
			}
		}
	}
	// A program's own: variables of groups, and groups that are lists.
	got, err := ParseJSON([]byte(`{"web": {"hosts": ["w"], "vars": {"ansible_user": "u", "ansible_port": 1, "x": [1]}},
		"old": ["v"], "_meta": {"hostvars": {"w": {"ansible_port": 2}}}}`), "")
	if err != nil || !reflect.DeepEqual(got, []Host{{"v", "v", "", 0, ""}, {"w", "w", "u", 2, ""}}) {
		t.Errorf("%+v, %v", got, err)
	}
	for src, want := range map[string]string{
		"": "unexpected end", "{\n{": "line 2", "[]": "cannot unmarshal array", `{"a": "b"}`: "group \"a\"",
		`{"a": {"hosts": "b"}}`: "group \"a\"", `{"a": {"hosts": ["b c"]}}`: "not the name of a host",
		`{"a": {"children": ["b c"]}}`: "not the name of a group", `{"a b": []}`: "not the name of a group",
		`{"all": {"children": ["ungrouped"]}}`: "names no host", `{"_meta": []}`: "_meta",
		`{"a": {"children": ["b"]}, "b": {"children": ["a"]}}`: "contains itself",
		`{"a": ["h"], "_meta": {"hostvars": {"h": {"ansible_user": {"__ansible_vault": "x"}}}}}`: "host h: " +
			"ansible_user is in a vault",
		`{"a": {"vars": {"ansible_host": {"__ansible_vault": "x"}}}}`:                  "ansible_host is in a vault",
		`{"a": ["h"], "_meta": {"hostvars": {"h": {"ansible_connection": "docker"}}}}`: "only ssh",
		`{"a": ["h"], "_meta": {"hostvars": {"h": {"ansible_host": "{{ x }}"}}}}`:      "template",
		`{"a": ["h"]} {}`:                   "after top-level value",
		strings.Repeat(" ", MaxFile) + "{}": "longer than 16 MiB",
	} {
		if got, err := ParseJSON([]byte(src), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q gives %q, %v; want an error with %q", src, names(got), err, want)
		}
	}
	for src, yaml := range map[string]bool{"#!/bin/sh\necho {}": false, "plugin: aws_ec2\nregions: [x]": true} {
		if _, err := Parse([]byte(src), yaml, ""); !errors.Is(err, ErrAnsible) {
			t.Errorf("%q: %v", src, err)
		}
	}
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(asJSON))
	f.Add([]byte(`{"a": ["h"], "b": {"vars": {"ansible_port": 1e3}, "children": ["a"]}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		hosts, err := ParseJSON(src, "")
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, h := range hosts {
			if h.Name == "" || seen[h.Name] || strings.ContainsAny(h.Name, " \n\t") || h.Port < 0 || h.Port > 65535 {
				t.Errorf("host %+v", h)
			}
			seen[h.Name] = true
		}
	})
}

// TestAnsible has the real program read a file, a program and a folder, each as tare reads it itself.
func TestAnsible(t *testing.T) {
	if _, err := proc.LookPath("ansible-inventory"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("ansible-inventory is not installed, and TARE_REQUIRE is set: run scripts/deps.sh")
		}
		t.Skip("ansible-inventory is not installed")
	}
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	t.Setenv("ANSIBLE_CONFIG", filepath.Join(dir, "ansible.cfg"))
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	want, err := Parse([]byte(ini), false, "")
	if err != nil {
		t.Fatal(err)
	}
	file("ansible.cfg", "", 0o644)
	file("folder/one", ini, 0o644)
	for _, path := range []string{file("hosts.ini", ini, 0o644), filepath.Join(dir, "folder"),
		file("program", "#!/bin/sh\ncat <<'END'\n"+asJSON+"\nEND\n", 0o755)} {
		src, err := Ansible(t.Context(), path, ".")
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		got, err := ParseJSON(src, "")
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %v, %v", path, names(got), err)
		}
		for _, h := range got {
			if strings.HasPrefix(h.Name, "web0") && path == filepath.Join(dir, "program") {
				continue // said less of there
			}
			if !slices.Contains(want, h) {
				t.Errorf("%s: %+v is none of %+v", path, h, want)
			}
		}
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "nothing"):                "no such file",
		file("broken", "#!/bin/sh\nexit 1\n", 0o755): "broken",
		"nodes,": "no such file",
	} {
		if src, err := Ansible(t.Context(), path, "."); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", path, src, err)
		}
	}
}

// TestLayouts holds inventories with what stands beside them against ansible-inventory.
func TestLayouts(t *testing.T) {
	if _, err := proc.LookPath("ansible-inventory"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("ansible-inventory is not installed, and TARE_REQUIRE is set: run scripts/deps.sh")
		}
		t.Skip("ansible-inventory is not installed")
	}
	t.Setenv("HOME", t.TempDir())
	for name, files := range map[string]map[string]string{
		"group_vars and host_vars": {"hosts": "[web]\nweb1\nweb2 ansible_port=1\n[web:vars]\nansible_user=file\n",
			"group_vars/all.yml": "ansible_port: 2222\nansible_user: deploy\n",
			"host_vars/web1.yml": "ansible_host: 192.0.2.7\n"},
		"groups in groups": {"hosts": "solo\n[a]\nx\n[b]\nx\ny\n[c:children]\na\nb\n[all:vars]\nansible_port=1\n",
			"group_vars/all": "ansible_user: all\n", "group_vars/c.yaml": "ansible_user: c\nansible_port: 3\n",
			"group_vars/a.json": `{"ansible_user": "a"}`, "group_vars/ungrouped.yml": "ansible_port: 9\n"},
		"folders of files": {"hosts": "[web]\nh\n", "group_vars/web/a.yml": "ansible_user: a\nansible_port: 1\n",
			"group_vars/web/b": "ansible_user: b\n", "group_vars/web/.c.yml": "ansible_user: c\n",
			"group_vars/web/d.yml~": "ansible_user: d\n", "group_vars/web/e.txt": "ansible_user: e\n",
			"group_vars/web/sub/f.yml": "ansible_port: 7\n", "host_vars/h/x.yml": "ansible_host: 192.0.2.8\n"},
		"the first of a name": {"hosts": "h\n", "host_vars/h": "ansible_user: plain\n",
			"host_vars/h.yml": "ansible_user: yml\n"},
		"not of this name": {"hosts": "web[1:2]\n", "group_vars/web.yml": "ansible_user: no\n",
			"host_vars/web2.yml": "ansible_port: 2\n"},
		"anchors": {"hosts.yml": "all:\n  vars: {ansible_user: everyone}\n  children:\n    web:\n      hosts:\n" +
			"        foo: {ansible_user: &u webuser, ansible_host: &h 192.0.2.1}\n        bar: {ansible_user: *u, " +
			"ansible_port: 2201}\n"},
		"merges": {"hosts.yml": "all:\n  hosts:\n    a: &common {ansible_user: shared, ansible_port: 2200}\n    b: " +
			"*common\n" +
			"    c:\n      <<: *common\n      ansible_host: 192.0.2.3\n    d: {<<: [*common, {ansible_host: x, " +
			"ansible_user: y}], ansible_port: 5}\n"},
		"a group that is an alias": {"hosts.yml": "all:\n  children:\n    a: &g {hosts: {h1: , h2: {ansible_port: " +
			"3}}}\n    b: *g\n"},
		"a mark and a directive": {"hosts.yml": "\ufeff%YAML 1.1\n---\nall: {hosts: {h: {ansible_user: 'x y'}}}\n"},
		"blocks and tags": {"hosts.yml": "all:\n  hosts:\n    h:\n      ansible_user: !unsafe u\n      " +
			"ansible_host: >-\n        folded\n" +
			"      ansible_port: !!int 22\n"},
		"ports":     {"hosts": "web1:2222\nweb[1:2].x:23\nweb3:24 ansible_port=25\n192.0.2.1:26\n"},
		"addresses": {"hosts": "2001:db8::2\n[2001:db8::1]:2222 ansible_user=u\n[::1]:5\n"},
		"addresses, YAML": {"hosts.yml": "all:\n  hosts:\n    '[2001:db8::1]:2222':\n    2001:db8::2:\n    " +
			"'h[1:2]:99': {ansible_user: u}\n"},
		"beside the plan, too": {"hosts": "[a]\nx\ny ansible_user=file\n[b]\nx\n",
			"group_vars/all.yml": "ansible_user: all\nansible_port: 1\n", "group_vars/a.yml": "ansible_host: a\n",
			"plan/group_vars/all.yml": "ansible_port: 2\nansible_host: all\n", "group_vars/b.yml": "ansible_user: b\n",
			"plan/group_vars/a.yml": "ansible_user: plan\n", "host_vars/y.yml": "ansible_port: 3\n",
			"plan/host_vars/y.yml": "ansible_port: 4\n"},
		"variables of all": {"hosts.yml": "all: {vars: {ansible_port: 1}, hosts: {h: }}\n",
			"group_vars/all/main.yml": "&x\nansible_user: &y z\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			main := ""
			for file, text := range files {
				path := filepath.Join(dir, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text),
					0o644)); err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(file, "hosts") {
					main = file
				}
			}
			src, err := Ansible(t.Context(), filepath.Join(dir, main), filepath.Join(dir, "plan"))
			if err != nil {
				t.Fatal(err)
			}
			want, err := ParseJSON(src, "")
			if err != nil {
				t.Fatal(err)
			}
			got, err := Parse([]byte(files[main]), strings.HasSuffix(main, ".yml"), "", os.DirFS(dir),
				os.DirFS(filepath.Join(dir, "plan")))
			byName := func(a, b Host) int { return strings.Compare(a.Name, b.Name) }
			slices.SortFunc(got, byName)
			slices.SortFunc(want, byName)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%+v, %v; ansible-inventory says %+v", got, err, want)
			}
		})
	}
}

func TestRanges(t *testing.T) {
	for pattern, want := range map[string]string{
		"n":               "n",
		"n[1:3]":          "n1 n2 n3",
		"n[08:11]x":       "n08x n09x n10x n11x",
		"n[0:10:5]":       "n0 n5 n10",
		"[a:c]-[1:2]":     "a-1 a-2 b-1 b-2 c-1 c-2",
		"[2001:db8::1]":   "error",
		"n[1:2":           "error",
		"n[2:1]":          "error",
		"n[1:x]":          "error",
		"n[1:3:0]":        "error",
		"n[1]":            "error",
		"n[1:999999999]":  "error",
		"n[1:200][1:200]": "error",
	} {
		got, err := expand(pattern)
		if err != nil {
			got = []string{"error"}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is %q (%v), want %q", pattern, got, err, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	deep := "[g0:children]\n"
	for i := range 70 {
		deep += fmt.Sprintf("g%d\n[g%d:children]\n", i+1, i+1)
	}
	for src, want := range map[string]string{
		"": "names no host",
		"[a:children]\nb\n[b:children]\na\n[b]\nh": "contains itself",
		"[a:children]\na":                          "group a contains itself",
		deep + "x":                                 "groups deep",
		"[a\nh":                                    "line 1",
		"[a:facts]":                                "after the colon comes children or vars",
		"h port":                                   "line 1: \"port\" is not KEY=VALUE",
		"[a:vars]\nnothing":                        "line 2",
		"h ansible_port=ssh":                       "host h: ansible_port",
		"h ansible_connection=winrm":               "only ssh",
		"h ansible_host={{ip}}":                    "template",
		"h 'unfinished":                            "line 1",
	} {
		if got, err := Parse([]byte(src), false, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q gives %q, %v; want an error with %q", src, names(got), err, want)
		}
	}
	for src, want := range map[string]string{
		"":                             "names no host",
		"all: [a, b]":                  "must be a mapping",
		"all: {hosts: {a: }, x: {}}":   "has \"x\"",
		"all: {hosts: {a: }":           "",
		"a: &x {children: {b: *x}}":    "groups deep",
		"a: {hosts: {h: }, hosts: {}}": "",
		"a: {children: {b: {children: {a: {hosts: {h: }}}}}}": "contains itself",
		"{[1]: 2}": "",
	} {
		if got, err := Parse([]byte(src), true, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q gives %q, %v; want an error with %q", src, names(got), err, want)
		}
	}
}

// TestTenThousandHosts holds that a large inventory is read whole, in both forms, and that names which differ only in
// capitals are two hosts, as they are for Ansible.
func TestTenThousandHosts(t *testing.T) {
	var yaml strings.Builder
	yaml.WriteString("all:\n  children:\n    nodes:\n      hosts:\n")
	for i := range 10_000 {
		fmt.Fprintf(&yaml, "        n%05d:\n          ansible_port: %d\n", i, 2000+i)
	}
	yaml.WriteString("        N00000:\n")
	for form, src := range map[bool]string{false: "[nodes]\nn[00000:09999] ansible_user=me\nN00000\n",
		true: yaml.String()} {
		got, err := Parse([]byte(src), form, "nodes")
		all := map[string]bool{}
		for _, h := range got {
			all[h.Name] = true
		}
		if err != nil || len(got) != 10_001 || len(all) != len(got) || !all["n00000"] || !all["N00000"] ||
			!all["n09999"] {
			t.Errorf("yaml %v: %d hosts, %v", form, len(got), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(ini), false)
	f.Add([]byte(asYAML), true)
	f.Add([]byte("a: &x\n  hosts: {h: &h {ansible_port: 1}, i: {<<: [*h, *h]}}\nb: *x\nansible_user: u\n"), true)
	f.Add([]byte("[::1]:22 ansible_user=u\n"), false)
	f.Fuzz(func(t *testing.T, src []byte, yaml bool) {
		hosts, err := Parse(src, yaml, "", fstest.MapFS{"group_vars/all": {Data: src}})
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, h := range hosts {
			if h.Name == "" || seen[h.Name] || strings.ContainsAny(h.Name, " \n\t") {
				t.Errorf("host %q", h.Name)
			}
			seen[h.Name] = true
		}
	})
}
