package nfsd

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func good() Export {
	return Export{Folder: "/scratch/share", Client: "10.64.0.2", Version: "4.2", Port: 2049, Threads: 8}
}

func TestExportsAreChecked(t *testing.T) {
	e, e3 := good(), good()
	e3.Version, e3.MountPort = "3", 2050
	for _, e := range []Export{e, e3} {
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(*Export){
		"relative":      func(e *Export) { e.Folder = "share" },
		"root":          func(e *Export) { e.Folder = "/" },
		"not clean":     func(e *Export) { e.Folder = "/a/../b" },
		"zero byte":     func(e *Export) { e.Folder = "/a\x00b" },
		"long":          func(e *Export) { e.Folder = "/" + strings.Repeat("a", maxPath) },
		"no address":    func(e *Export) { e.Client = "host" },
		"two words":     func(e *Export) { e.Client = "10.0.0.1 x" },
		"IPv6":          func(e *Export) { e.Client = "::1" },
		"no mount port": func(e *Export) { e.Version = "3" },
		"one port":      func(e *Export) { e.Version, e.MountPort = "3", e.Port },
		"mount port":    func(e *Export) { e.MountPort = 2050 },
		"version 4":     func(e *Export) { e.Version = "4" },
		"no port":       func(e *Export) { e.Port = 0 },
		"no threads":    func(e *Export) { e.Threads = 0 },
		"many threads":  func(e *Export) { e.Threads = 5000 },
	} {
		e := good()
		change(&e)
		if err := e.Check(); err == nil {
			t.Errorf("%s: %+v passes", name, e)
		}
	}
}

func TestOnlyTheVersionAskedForIsSpoken(t *testing.T) {
	for _, c := range []struct{ known, version, want string }{
		{"+3 +4 +4.0 +4.1 +4.2", "4.0", "-3 +4 +4.0 -4.1 -4.2"},
		{"-2 +3 +4 +4.0 +4.1 +4.2", "4.1", "-2 -3 +4 -4.0 +4.1 -4.2"},
		{"", "4.2", "+4 -4.0 -4.1 +4.2"},
		{"+3 +4 +4.0 +4.1 +4.2", "3", "+3 -4"},
		{"-2 +3 +4 +4.1 +4.2", "3", "-2 +3 -4"},
	} {
		e := good()
		e.Version = c.version
		if got := e.versionLine(c.known); got != c.want {
			t.Errorf("%s of %q: %q, want %q", c.version, c.known, got, c.want)
		}
	}
}

// The contents are those that Linux 6.1 shows.
func TestVersionsAreReadBack(t *testing.T) {
	for content, want := range map[string][]string{
		"-3 +4 -4.1 -4.2": {"4.0"}, "-3 +4 -4.0 -4.1 +4.2": {"4.2"}, "+3 +4 +4.1 +4.2": {"3", "4.0", "4.1", "4.2"},
		"-2 -3 -4 -4.0 -4.1 -4.2": nil, "": nil,
		"+4 +4.0": {"4.0"}, "+3 -4 -4.0 -4.1 -4.2": {"3"},
	} {
		if got := spoken(content); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
}

// The lines are those that rpc.mountd and exportfs of nfs-utils write for
// "rw,no_root_squash,no_subtree_check,insecure,fsid=0".
func TestLinesForTheCaches(t *testing.T) {
	e := good()
	e.Folder, e.Async = "/a b", true
	want := []entry{
		{"auth.unix.ip", "nfsd 10.64.0.2 2147483647 tare\n"},
		{"nfsd.export", "tare /a\\040b 2147483647 9234 65534 65534 0\n"},
		{"nfsd.fh", "tare 1 \\x00000000 2147483647 /a\\040b\n"},
	}
	got := e.entries()
	if len(got) != len(want) {
		t.Fatal(got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
}

// unquote reads a word as the kernel's qword_get does.
func unquote(t *testing.T, s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		n, err := strconv.ParseUint(s[i+1:i+4], 8, 8)
		if err != nil {
			t.Fatal(err)
		}
		b, i = append(b, byte(n)), i+3
	}
	return string(b)
}

func FuzzFoldersStayOneWord(f *testing.F) {
	f.Add("/a b\n")
	f.Add("/\\x00\xff\t")
	f.Fuzz(func(t *testing.T, folder string) {
		q := quote(folder)
		if strings.ContainsAny(q, " \t\n\r\x00") {
			t.Errorf("%q becomes %q, which is more than a word", folder, q)
		}
		if back := unquote(t, q); back != folder {
			t.Errorf("%q becomes %q and that %q", folder, q, back)
		}
	})
}

func TestHandlesAreRead(t *testing.T) {
	got, err := parseHandle("\\x0100010000000000\n")
	if err != nil || string(got) != "\x01\x00\x01\x00\x00\x00\x00\x00" {
		t.Errorf("%x, %v", got, err)
	}
	for _, bad := range []string{"", "\\x", "\\x0", "0100", "\\xzz", "\\x01 00",
		"\\x" + strings.Repeat("00", maxHandle+1)} {
		if got, err := parseHandle(bad); err == nil {
			t.Errorf("%q gives %x", bad, got)
		}
	}
	if line := handleLine("/a b"); line != "tare /a\\040b 64\n" {
		t.Errorf("the question is %q", line)
	}
}

func FuzzHandle(f *testing.F) {
	f.Add("\\x0100010000000000\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseHandle(text); err == nil &&
			(len(got) == 0 || len(got) > maxHandle || 2*len(got) > len(text)) {
			t.Errorf("%q gives %x", text, got)
		}
	})
}

func TestKernelsWhoseServerEndsByItself(t *testing.T) {
	for release, want := range map[string]bool{
		"6.1.0-56-amd64": true, "5.13.0": true, "5.12.19": false, "5.9": false, "4.19.0": false, "6.18.44-fc": true,
		"10.0": true, "": false, "six": false,
	} {
		if err := endsByItself(release); (err == nil) != want {
			t.Errorf("%q: %v", release, err)
		}
	}
}

func TestKernelsThatAreReady(t *testing.T) {
	with := "nodev\tsysfs\nnodev\tnfsd\n\text4\n"
	for _, c := range []struct {
		release, systems string
		tap              error
		want             string
	}{
		{"6.1.0-56-amd64", with, nil, ""},
		{"5.4.0", with, nil, "older than Linux 5.13"},
		{"6.1.0-56-amd64", "nodev\tnfs\nnodev\tnfsd4\n", nil, "nfsd is not loaded"},
		{"6.1.0-56-amd64", "", nil, "nfsd is not loaded"},
		{"6.1.0-56-amd64", with, errors.New("no such file"), "tun is not loaded: no such file"},
	} {
		err := ready(c.release, []byte(c.systems), c.tap)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestMessagesOfTheServerAreEvidence(t *testing.T) {
	log := "<6>[1.0] eth0: up\n<6>[2.0] NFSD: starting 10-second grace period\n" +
		"<4>[3.0] svc: failed to register lockdv1 RPC service (errno 111).\n<6>[4.0] bye"
	if got := string(about([]byte(log))); strings.Count(got, "\n") != 2 || !strings.Contains(got, "grace") ||
		!strings.Contains(got, "lockdv1") {
		t.Errorf("%q", got)
	}
	if got := about([]byte(strings.Repeat("nfsd\n", 3*maxMessages))); strings.Count(string(got), "\n") != maxMessages {
		t.Errorf("%d lines", strings.Count(string(got), "\n"))
	}
}

func TestNetNSsAreChecked(t *testing.T) {
	for address, ok := range map[string]bool{"": true, "10.64.0.1": true, "host": false, "::1": false,
		"10.64.0.1/24": false} {
		o := NetNSOptions{Address: address}
		if err := o.check(); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}
