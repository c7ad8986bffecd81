package ssh

import (
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m, Infos()) }

func TestParseArg(t *testing.T) {
	for in, want := range map[string]address{
		"host":                 {host: "host"},
		"me@host:2222":         {user: "me", host: "host", port: 2222},
		"dom\\me@h.example":    {user: "dom\\me", host: "h.example"},
		"a@b@host":             {user: "a@b", host: "host"},
		"[::1]:22":             {host: "::1", port: 22},
		"me@[fe80::1%eth0]":    {user: "me", host: "fe80::1%eth0"},
		"2001:db8::1":          {host: "2001:db8::1"},
		"host_with_underscore": {host: "host_with_underscore"},
	} {
		if got, err := parseArg(in); err != nil || got != want {
			t.Errorf("parseArg(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "@host", "-oProxyCommand=x", "me@-x", "host:", "host:0", "host:65536", "host:x",
		"[::1", "[::1]x", "a b", "h;id", "$(id)", "-l@host", "a\nb", "me@"} {
		if got, err := parseArg(in); err == nil {
			t.Errorf("parseArg(%q) = %+v, want an error", in, got)
		}
	}
}

func FuzzParseArg(f *testing.F) {
	f.Add("me@host:22")
	f.Add("[::1]:22")
	f.Fuzz(func(t *testing.T, arg string) {
		a, err := parseArg(arg)
		if err != nil {
			return
		}
		if strings.HasPrefix(a.host, "-") || strings.HasPrefix(a.user, "-") ||
			strings.ContainsAny(a.host+a.user, " \t\n'\"$`;&|<>") || a.host == "" || a.port < 0 || a.port > 65535 {
			t.Fatalf("%q becomes %+v", arg, a)
		}
	})
}

func TestParseOptions(t *testing.T) {
	got, err := parseOptions("ciphers=aes128-ctr,aes256-ctr;ProxyJump=me@jump:22")
	if want := []string{"Ciphers=aes128-ctr,aes256-ctr", "ProxyJump=me@jump:22"}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for _, in := range []string{"ProxyCommand=id", "StrictHostKeyChecking=no", "LocalCommand=id", "Ciphers", "Ciphers=",
		"Ciphers=a\nProxyCommand=b", ";", "=x", "LocalForward=1:2:3"} {
		if got, err := parseOptions(in); err == nil {
			t.Errorf("parseOptions(%q) = %q, want an error", in, got)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("hostname a\nport 22\nuser me\n\nciphers \x1b[31m\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		for k, v := range parseConfig(out) {
			if strings.ContainsAny(v, "\x1b\x00\n") || !strings.HasPrefix(k, "ssh.") {
				t.Fatalf("%q = %q", k, v)
			}
		}
	})
}

func TestCommandLine(t *testing.T) {
	c, err := connection(&env.Spec{Arg: "me@host:2222", Settings: map[string]string{
		"options": "ConnectTimeout=3", "known_hosts": "/tmp/a b%", "config": "/etc/x",
	}})
	if err != nil {
		t.Fatal(err)
	}
	argv := c.argv("sh", "-c", "echo 'it'", "a b")
	line := strings.Join(argv, "\x00")
	for _, want := range []string{"\x00-F\x00/etc/x\x00", "\x00-l\x00me\x00", "\x00-p\x002222\x00",
		"\x00StrictHostKeyChecking=yes\x00", "\x00UserKnownHostsFile=\"/tmp/a b%%\"\x00"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q lacks %q", argv, want)
		}
	}
	if strings.Index(line, "ConnectTimeout=3") > strings.Index(line, "ConnectTimeout=15") {
		t.Error("OpenSSH takes the first value of an option: the user's must come first")
	}
	if got := argv[len(argv)-3:]; !slices.Equal(got, []string{"--", "host", `sh -c 'echo '\''it'\''' 'a b'`}) {
		t.Errorf("the end of the command line is %q", got)
	}
}
