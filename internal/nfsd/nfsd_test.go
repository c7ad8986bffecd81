package nfsd

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

func good() Export {
	return Export{Folder: "/scratch/share", Client: "10.64.0.2", Version: "4.2", Port: 2049, Threads: 8}
}

func TestExportsAreChecked(t *testing.T) {
	e := good()
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Export){
		"relative":     func(e *Export) { e.Folder = "share" },
		"root":         func(e *Export) { e.Folder = "/" },
		"not clean":    func(e *Export) { e.Folder = "/a/../b" },
		"zero byte":    func(e *Export) { e.Folder = "/a\x00b" },
		"long":         func(e *Export) { e.Folder = "/" + strings.Repeat("a", maxPath) },
		"no address":   func(e *Export) { e.Client = "host" },
		"two words":    func(e *Export) { e.Client = "10.0.0.1 x" },
		"IPv6":         func(e *Export) { e.Client = "::1" },
		"version 3":    func(e *Export) { e.Version = "3" },
		"version 4":    func(e *Export) { e.Version = "4" },
		"no port":      func(e *Export) { e.Port = 0 },
		"no threads":   func(e *Export) { e.Threads = 0 },
		"many threads": func(e *Export) { e.Threads = 5000 },
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
		"-3 +4 -4.1 -4.2": {"4.0"}, "-3 +4 -4.0 -4.1 +4.2": {"4.2"}, "+3 +4 +4.1 +4.2": {"3", "4.0", "4.1", "4.2"}, "-2 -3 -4 -4.0 -4.1 -4.2": nil, "": nil,
		"+4 +4.0": {"4.0"},
	} {
		if got := spoken(content); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
}

// The lines are those that rpc.mountd and exportfs of nfs-utils write for "rw,no_root_squash,no_subtree_check,insecure,fsid=0".
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
