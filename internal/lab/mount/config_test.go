package mount

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/env"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// defaults returns a kind's settings, some of them replaced.
func defaults(t testing.TB, name string, given map[string]string) func(string) string {
	t.Helper()
	k, ok := lookup(name)
	if !ok {
		t.Fatalf("no kind %s", name)
	}
	j := &job{Request: Request{Spec: env.Spec{Name: "m", Driver: name, Settings: given}}}
	if err := j.read(k.Settings); err != nil {
		t.Fatal(err)
	}
	return j.get
}

// configs makes each server's configuration for a folder and a private directory.
func configs(t testing.TB, folder, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	keep := func(name, text string, err error) {
		if err == nil {
			all[name] = text
		}
	}
	text, err := ganeshaConfig(folder, dir, "3", "udp", "always", []int{4001, 4002})
	keep("ganesha-3.conf", text, err)
	text, err = ganeshaConfig(folder, dir, "4.2", "tcp", "client", []int{4001, 4002})
	keep("ganesha-4.conf", text, err)
	text, err = smbConfig(folder, dir, "user", 4003, defaults(t, "smb", nil))
	keep("smb.conf", text, err)
	text, err = sshdConfig(dir, "user", 4004, "aes256-ctr")
	keep("sshd_config", text, err)
	keep("ssh_config", sshConfig("/etc/tare/m", "10.0.2.2", "user", 4004, false, "auto"), nil)
	text, err = rsyncConfig(folder, dir, true)
	keep("rsyncd.conf", text, err)
	return all
}

func TestConfigurations(t *testing.T) {
	got := configs(t, "/srv/a b, c;d #e 'f' é", "/tmp/tare-run-x")
	for name, text := range got {
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(want) {
			t.Errorf("%s is\n%s\nwant\n%s", file, text, want)
		}
	}
	if len(got) != 6 {
		t.Errorf("%d configurations were written", len(got))
	}
}

// FuzzConfigurations checks that no path adds, removes or changes lines other than those that contain it.
func FuzzConfigurations(f *testing.F) {
	f.Add("/a", "/b")
	f.Add("/srv/a\nread only = no", "/tmp/x\\")
	f.Add(`/x"; FSAL { Name = MEM; } Path = "`, "/tmp/%U")
	f.Add("/x\r[global]", "/tmp/a b")
	f.Add("/x ", "/\xff")
	f.Fuzz(func(t *testing.T, folder, dir string) {
		const mark, place = "/FOLDER", "/PLACE"
		folder, dir = "/f"+folder, filepath.Clean("/d"+dir)
		if dir == "/" {
			return
		}
		want := configs(t, mark, place)
		for name, text := range configs(t, folder, dir) {
			if expect := strings.NewReplacer(mark, folder, place, dir).Replace(want[name]); text != expect {
				t.Errorf("%s with folder %q and directory %q is\n%s\nwant\n%s", name, folder, dir, text, expect)
			}
			if strings.Count(text, "\n") != strings.Count(want[name], "\n") || strings.ContainsAny(text, "\r\x00\v\f") {
				t.Errorf("%s with folder %q and directory %q has other lines:\n%s", name, folder, dir, text)
			}
			if strings.Contains(text, "\\\n") {
				t.Errorf("%s joins lines:\n%s", name, text)
			}
			for _, p := range []string{folder, dir} {
				if strings.HasPrefix(name, "ganesha") && strings.Contains(p, `"`) {
					t.Errorf("%s ends a quotation inside %q", name, p)
				}
			}
		}
	})
}

func TestPathsAreRefusedOrCarried(t *testing.T) {
	type answer map[string]bool // by configuration: does it accept the path?
	all := answer{"ganesha-3.conf": true, "smb.conf": true, "rsyncd.conf": true}
	none := answer{"ganesha-3.conf": false, "smb.conf": false, "rsyncd.conf": false}
	for folder, want := range map[string]answer{
		"/a b": all, "/a,b": all, "/a'b": all, "/a;b#c": all, "/é": all, "/a=b": all, "/[share]": all, "/a{b}": all,
		"/a\nb": none, "/a\tb": none, "/\xff": none, "/a ": none, "/a\x7fb": none, `/a\`: none, "/a\u2028b": all,
		`/a"b`: {"ganesha-3.conf": false, "smb.conf": false, "rsyncd.conf": true},
		"/a%b": {"ganesha-3.conf": true, "smb.conf": false, "rsyncd.conf": false},
	} {
		got := configs(t, folder, "/tmp/x")
		for name, carried := range want {
			if _, ok := got[name]; ok != carried {
				t.Errorf("%q in %s: carried %t, want %t", folder, name, ok, carried)
			}
		}
	}
}

func TestQuoting(t *testing.T) {
	for path, want := range map[string]string{`/a,b`: `/a\,b`, `/a\b`: `/a\\b`, "/a\nb": "/a\nb", "/\xff": "/\xff"} {
		if got := fuseQuote(path); got != want {
			t.Errorf("libfuse: %q becomes %q, want %q", path, got, want)
		}
	}
	if got := comma("/a,b,,c"); got != "/a,,b,,,,c" {
		t.Errorf("QEMU: %q", got)
	}
	for name, want := range map[string]string{"short": "short", strings.Repeat("x", 31): strings.Repeat("x", 31)} {
		if got := tagOf(name); got != want {
			t.Errorf("tag %q of %q", got, name)
		}
	}
	a, b := tagOf(strings.Repeat("x", 39)+"a"), tagOf(strings.Repeat("x", 39)+"b")
	if a == b || len(a) > maxTag || !strings.HasPrefix(a, "tare-") {
		t.Errorf("tags of long names: %q, %q", a, b)
	}
}

// FuzzFuseQuote parses quoted values like libfuse (lib/fuse_opt.c, process_opt_group).
func FuzzFuseQuote(f *testing.F) {
	f.Add(`a,b\c`)
	f.Add(`\1`)
	f.Fuzz(func(t *testing.T, path string) {
		var read []byte
		s := fuseQuote(path)
		for i := 0; i < len(s); i++ {
			switch {
			case s[i] == ',':
				t.Fatalf("%q ends at a comma", s)
			case s[i] == '\\' && i+1 < len(s):
				if i++; s[i] >= '0' && s[i] <= '3' {
					t.Fatalf("%q holds an octal number", s)
				}
				read = append(read, s[i])
			default:
				read = append(read, s[i])
			}
		}
		if string(read) != path {
			t.Fatalf("%q is read as %q", path, read)
		}
	})
}

func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		if seen[k.Name] || k.Doc == "" || !k.Shared || !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("kind %+v", k)
		}
		seen[k.Name] = true
		for _, s := range k.Settings {
			if s.Check == nil || s.Doc == "" || !strings.HasSuffix(s.Doc, ".") {
				t.Errorf("%s: setting %s has no check or no sentence", k.Name, s.Name)
				continue
			}
			if err := s.Check(strings.Replace(s.Default, placeholder, "m", 1)); err != nil {
				t.Errorf("%s: the default of %s is refused: %v", k.Name, s.Name, err)
			}
			for _, bad := range []string{"", "a,b c", "-1", "../x", "x\ny", "99999999999999999999"} {
				if s.Check(bad) == nil {
					t.Errorf("%s: setting %s accepts %q", k.Name, s.Name, bad)
				}
			}
		}
		if k.Probe != nil {
			if st := k.Probe(t.Context()); !st.OK && st.Remedy == "" || st.Detail == "" {
				t.Errorf("%s: status %+v", k.Name, st)
			}
		}
	}
}

func TestCheckGuestDir(t *testing.T) {
	for dir, ok := range map[string]bool{
		"/mnt/x": true, "/srv/a-b_c.d": true, "mnt": false, "/": false, "/proc/x": false, "/dev": false, "/a//b": false,
		"/a/../b": false,
		"/a/":     false, "/a b": false, "/modules": false, "/scratch": false, "/scratch/x": true, "/init": false,
		"/é": false,
	} {
		if err := checkGuestDir(dir); (err == nil) != ok {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

func TestCheckKernel(t *testing.T) {
	const full = "CONFIG_NFS_FS=m\nCONFIG_NFS_V3=m\nCONFIG_NFS_V4=m\nCONFIG_VIRTIO_FS=m\nCONFIG_CIFS=m\n" +
		"CONFIG_FUSE_FS=y\nCONFIG_NET_9P=m\nCONFIG_NET_9P_VIRTIO=m\nCONFIG_9P_FS=m\n"
	udp := env.Spec{Driver: "nfs", Settings: map[string]string{"vers": "3", "proto": "udp"}}
	if err := CheckKernel(udp, []byte(full+"CONFIG_NFS_DISABLE_UDP_SUPPORT=y\n")); err != ErrNFSUDP ||
		!strings.Contains(err.Error(), CodeNFSUDP) {
		t.Error(err)
	}
	for _, config := range []string{full, full + "# CONFIG_NFS_DISABLE_UDP_SUPPORT is not set\n"} {
		if err := CheckKernel(udp, []byte(config)); err != nil {
			t.Error(err)
		}
	}
	for _, k := range Kinds() {
		if err := CheckKernel(env.Spec{Driver: k.Name}, []byte(full)); err != nil {
			t.Error(err)
		}
		if err := CheckKernel(env.Spec{Driver: k.Name}, nil); err != nil {
			t.Error(err)
		}
		if err := CheckKernel(env.Spec{Driver: k.Name},
			[]byte("# CONFIG_NET_9P is not set\n")); (err == nil) != (k.Name == "rsync") {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
}
