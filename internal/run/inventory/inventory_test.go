package inventory

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
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

func TestRanges(t *testing.T) {
	for pattern, want := range map[string]string{
		"n":               "n",
		"n[1:3]":          "n1 n2 n3",
		"n[08:11]x":       "n08x n09x n10x n11x",
		"n[0:10:5]":       "n0 n5 n10",
		"[a:c]-[1:2]":     "a-1 a-2 b-1 b-2 c-1 c-2",
		"[2001:db8::1]":   "[2001:db8::1]",
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
		"all: [a, b]":                  "is a mapping",
		"all: {hosts: {a: }, x: {}}":   "has \"x\"",
		"all: {hosts: {a: }":           "",
		"a: &x {children: {b: *x}}":    "is a mapping",
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
	f.Fuzz(func(t *testing.T, src []byte, yaml bool) {
		hosts, err := Parse(src, yaml, "")
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
