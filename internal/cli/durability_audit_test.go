package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDurabilityAudit(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	smb := file("smb.conf", "[share]\nstrict sync = no\n")
	fstab := file("fstab", "/dev/sda1 / ext4 data=writeback 0 1\n")
	exports := file("exports", "/srv *(rw,sync)\n")
	for _, c := range []struct {
		args  []string
		stdin string
		code  int
		says  []string
	}{
		{[]string{smb, exports}, "", 0, []string{"smb-strict-sync: the file server, ignores flushes",
			"set strict sync = yes", "this is not a test"}},
		{[]string{"--format", "json", smb}, "", 0, []string{`"kind":"samba"`, `"ignores":true`}},
		{[]string{"--format", "json", exports}, "", 0, []string{`"findings":[]`}},
		{[]string{"-"}, "write through\n", 0, []string{"write-cache-through"}},
		{[]string{filepath.Join(dir, "missing"), smb}, "", 1, []string{"smb-strict-sync", "no such file"}},
		{[]string{file("what", "hello")}, "", 1, []string{"--as"}},
		{[]string{"--as", "exports", exports}, "", 0, []string{"(exports)"}},
		{[]string{"--as", "exports", smb}, "", 2, []string{"no line of it"}},
		{[]string{"--as", "vmware", smb}, "", 2, []string{"unknown kind"}},
		{[]string{"--format", "xml", smb}, "", 2, []string{"--format"}},
		{[]string{"--fail-on", "ignores", exports, smb}, "", 3, []string{"ignores flushes", "(exports)"}},
		{[]string{"--fail-on", "weakens", smb}, "", 3, []string{"ignores flushes"}},
		{[]string{"--fail-on", "weakens", exports}, "", 0, []string{"this is not a test"}},
		{[]string{"--fail-on", "ignores", fstab}, "", 0, []string{"weakens"}},
		{[]string{"--fail-on", "weakens", fstab}, "", 3, []string{"weakens"}},
		{[]string{"--fail-on", "ignores", smb, filepath.Join(dir, "missing")}, "", 1, []string{"no such file"}},
		{[]string{"--fail-on", "all", smb}, "", 2, []string{"ignores, weakens"}},
		{nil, "", 2, []string{"but got nothing"}},
	} {
		code, out, said := typed(c.stdin, append([]string{"durability", "audit"}, c.args...)...)
		out += said
		if code != c.code {
			t.Errorf("%v: exit code %d, want %d\n%s", c.args, code, c.code, out)
		}
		for _, s := range c.says {
			if !strings.Contains(out, s) {
				t.Errorf("%v does not say %q:\n%s", c.args, s, out)
			}
		}
	}
}
