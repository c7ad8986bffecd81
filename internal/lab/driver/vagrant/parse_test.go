package vagrant

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/env"
)

// webAndDB is what Vagrant 2.3.4 says of a project with two machines.
const webAndDB = `1700000000,web,metadata,provider,docker
1700000000,db,metadata,provider,docker
1700000000,web,provider-name,docker
1700000000,web,state,running
1700000000,web,state-human-short,running
1700000000,web,state-human-long,The container is created and running. You can stop it using%!(VAGRANT_COMMA)\n
1700000000,db,provider-name,docker
1700000000,db,state,not_created
1700000000,db,state-human-short,not created
1700000000,,ui,info,Current machine states:\n\nweb  running (docker)
`

func TestParseStatus(t *testing.T) {
	want := []state{{"web", "docker", "running", "running"}, {"db", "docker", "not_created", "not created"}}
	if got := parseStatus([]byte(webAndDB)); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestParseConfigs(t *testing.T) {
	out := `1700000000,default,metadata,provider,docker
1700000000,default,ssh-config,Host default\n  HostName 127.0.0.1\n  User vagrant\n  Port 2222\n  ` +
		`UserKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n  IdentityFile "/a b/key"\n  LogLevel FATAL\n  ` +
		`ProxyCommand sh -c 'nc %h %p %!(VAGRANT_COMMA) x'\n
Host default
  HostName 127.0.0.1
`
	want := []sshConfig{{"default", `Host tare-vagrant-machine
  HostName 127.0.0.1
  User vagrant
  Port 2222
  IdentityFile "/a b/key"
  ProxyCommand sh -c 'nc %h %p , x'
`}}
	if got := parseConfigs([]byte(out)); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

const someFolders = `{"nfs":{"/srv/www":{"nfs_version":4,"nfs_udp":false,"mount_options":["ro","actimeo=2"],` +
	`"guestpath":"/srv/www","hostpath":"www","disabled":false,"__vagrantfile":true,"nfs__quiet":true}},` +
	`"smb":{"/x":{"guestpath":"/x","hostpath":"/h","smb_password":"geheim","smb_username":"me"}},` +
	`"docker":{"/vagrant":{"guestpath":"/vagrant","hostpath":".","docker_consistency":null}}}`

func TestParseFolders(t *testing.T) {
	got, err := parseFolders([]byte(someFolders))
	if err != nil || len(got) != 3 {
		t.Fatalf("got %+v, %v", got, err)
	}
	www := got[0]
	if www.kind != "nfs" || www.guest != "/srv/www" || www.host != "www" || !maps.Equal(www.options, map[string]string{
		"nfs_version": "4", "nfs_udp": "false", "mount_options": "ro,actimeo=2", "nfs__quiet": "true"}) {
		t.Errorf("got %+v", www)
	}
	if !maps.Equal(got[2].options, map[string]string{"smb_username": "me"}) {
		t.Errorf("options of smb: %v", got[2].options)
	}
}

func TestMountNames(t *testing.T) {
	var others []env.Spec
	for _, c := range []struct{ guest, want string }{
		{"/vagrant", "vagrant"}, {"/srv/www data", "srv-www-data"}, {"/srv/www-data", "srv-www-data-2"},
		{"/", "folder"},
		{"/" + strings.Repeat("a/", 40) + "end", strings.Repeat("a-", 16)[1:] + "a-end"}, {"/.cache", "cache"},
	} {
		got := mountName(c.guest, others)
		if got != c.want && c.guest[1] != 'a' || env.CheckName(got) != nil {
			t.Errorf("%s is called %q, want %q", c.guest, got, c.want)
		}
		others = append(others, env.Spec{Name: got})
	}
}

func TestVagrantfile(t *testing.T) {
	s := &scratch{spec: env.Spec{Settings: map[string]string{"provider": "libvirt", "box": "it's\\", "cpus": "2",
		"memory": "1GiB"}}, folders: []syncedFolder{
		{spec: env.Spec{Name: "a", Driver: "nfs", Settings: map[string]string{"vers": "4", "proto": "tcp",
			"options": "noac,ro"}}, host: "/h/a"},
		{spec: env.Spec{Name: "b", Driver: "default"}, host: "/h/b"},
	}}
	want := `Vagrant.configure("2") do |config|
  config.vm.synced_folder ".", "/vagrant", disabled: true
  config.vm.box = 'it\'s\\'
  config.vm.box_check_update = false
  config.vm.provider 'libvirt' do |p|
    p.cpus = 2
    p.memory = 1024
  end
  config.vm.synced_folder '/h/a', '/tare-mounts/a', type: 'nfs', nfs_version: '4', nfs_udp: false, ` +
		`mount_options: ['noac', 'ro']
  config.vm.synced_folder '/h/b', '/tare-mounts/b'
end
`
	if got := s.vagrantfile(); got != want {
		t.Errorf("got\n%s", got)
	}
}

func FuzzParseOutput(f *testing.F) {
	f.Add([]byte(webAndDB))
	f.Add([]byte("1,default,ssh-config,Host x\\n  Port 1\n1,,error-exit,A::B,c%!(VAGRANT_COMMA)d"))
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, c := range parseConfigs(out) {
			if n := strings.Count(strings.ToLower(c.text), "host "); !strings.HasPrefix(c.text, "Host "+sshHost+"\n") ||
				n < 1 || checkWord(c.machine) != nil {
				t.Fatalf("%+v", c)
			}
			for line := range strings.Lines(c.text) {
				if key, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(line)), " "); key == "include" ||
					key == "match" {
					t.Fatalf("%q", line)
				}
			}
		}
		for _, s := range parseStatus(out) {
			if s.name == "" || s.state == "" {
				t.Fatalf("%+v", s)
			}
		}
		plain(out)
	})
}

func FuzzParseFolders(f *testing.F) {
	f.Add([]byte(someFolders))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parseFolders(text)
		if err != nil {
			return
		}
		var specs []env.Spec
		for _, x := range all {
			if !path.IsAbs(x.guest) || x.host == "" {
				t.Fatalf("%+v", x)
			}
			for k := range x.options {
				if secret(k) {
					t.Fatalf("option %q is kept", k)
				}
			}
			specs = append(specs, env.Spec{Name: mountName(x.guest, specs)})
			if err := env.CheckName(specs[len(specs)-1].Name); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzParseMounts(f *testing.F) {
	f.Add([]byte("a /srv/a\\040b nfs4 rw 0 0\nb /srv/a\\040b ext4 rw 0 0\n"))
	f.Fuzz(func(t *testing.T, table []byte) {
		for at := range parseMounts(table) {
			if at != path.Clean(at) {
				t.Fatalf("%q", at)
			}
		}
	})
}
