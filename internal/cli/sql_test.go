package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"tare/internal/sys/sql/log"
)

func TestSQLInspect(t *testing.T) {
	run := func(in string, args ...string) (code int, out, said string) {
		return typed(in, append([]string{"sql", "inspect"}, args...)...)
	}
	const first = "261121  0:05:31\t     8 Connect\ta@b on d\n\t\t     8 Query\tSELECT 1\n\t\t     8 Query\tDELETE FR"
	const second = "OM t\n261121  0:05:33\t     8 Query\tSELECT 'x\n\t\t     8 Query\tSELECT 2\n\t\t     8 Quit\t\n"
	dir := t.TempDir()
	parts := []string{filepath.Join(dir, "a b.1"), filepath.Join(dir, "a b")}
	for i, text := range []string{first, second} {
		if err := os.WriteFile(parts[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, said := run("", append([]string{"--format", "json"}, parts...)...)
	var s log.Summary
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != exitOK || said != "" {
		t.Fatalf("exit %d, %q, %v\n%s", code, said, err, out)
	}
	schema, err := jsonschema.NewCompiler().Compile("../../docs/sql-inspect.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err == nil {
		err = schema.Validate(document)
	}
	if err != nil {
		t.Error(err)
	}
	if want := (log.Parts{Total: 4, Replayed: 2, Skipped: 1, Ambiguous: 1}); s.Account.Statements != want {
		t.Errorf("statements %+v, want %+v", s.Account.Statements, want)
	}
	b := s.Account.Bytes
	if b.Total != int64(len(first+second)) || b.Total != b.Replayed+b.Skipped+b.Ambiguous+b.Lost {
		t.Errorf("bytes %+v of %d", b, len(first+second))
	}
	if s.Schema != log.Schema || s.Format != log.General || s.Time.Seconds != 2 || s.Sessions.Total != 1 {
		t.Errorf("%+v", s)
	}
	if code, out, said = run(first+second, "-"); code != exitOK || said != "" ||
		!strings.Contains(out, "write: changes rows") {
		t.Errorf("exit %d, %q\n%s", code, said, out)
	}
	code, out, said = run("", append([]string{"--statement", "1"}, parts...)...)
	if code != exitOK || said != "" || out != "session 1, 2026-11-21T00:05:31Z\n\nDELETE FROM t\n" {
		t.Errorf("exit %d, %q, %q", code, said, out)
	}
	if code, out, said = run("", append([]string{"--statement", "4"}, parts...)...); code != exitFailed || out != "" ||
		!strings.Contains(said, "the log has 4 statements, numbered from 0") {
		t.Errorf("exit %d, %q, %q", code, said, out)
	}
	// A replay in two environments would do the same, by its dry run.
	code, _, dry := typed("", "run", "--dry-run", "-e", "host", "-e", "again=local", "-w",
		`sql.replay:log="`+parts[0]+`,`+parts[1]+`"`, "-o", filepath.Join(dir, "none"))
	for _, want := range []string{": 2 of 4 statements are replayed in host, again\n", "  database d, the only one",
		"  skipped 1: write: changes rows\n"} {
		if code != exitOK || !strings.Contains(dry, want) {
			t.Errorf("exit %d, %s is not in %s", code, want, dry)
		}
	}
	page := filepath.Join(dir, "page.html")
	if code, out, said = run("", append([]string{"-o", page}, parts...)...); code != exitOK || out != "" || said != "" {
		t.Errorf("exit %d, %q, %q", code, said, out)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "delete from t") {
		t.Errorf("the page: %v", err)
	}
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitUsage, nil}, {exitUsage, []string{"--format", "xml", parts[0]}},
		{exitUsage, []string{"--dialect", "x", parts[0]}}, {exitUsage, []string{"--zone", "Nowhere/At_all", parts[0]}},
		{exitUsage, []string{"--top", "-1", parts[0]}},
		{exitUsage, []string{"--statement", "-2", parts[0]}},
		{exitUsage, []string{"--statement", "1", "--format", "json", parts[0]}},
		{exitUsage, []string{"--statement", "1", "-o", filepath.Join(dir, "x"), parts[0]}},
		{exitFailed, []string{filepath.Join(dir, "none")}},
		{exitFailed, []string{"--log-format", "x", parts[0]}},
	} {
		if code, _, _ := run("", c.args...); code != c.code {
			t.Errorf("%q exits with %d, want %d", c.args, code, c.code)
		}
	}
}

func TestSQLCaptureUsage(t *testing.T) {
	good := []string{"--server", "mysql", "--address", "/no/socket", "--user", "u", "-o",
		filepath.Join(t.TempDir(), "x")}
	for _, c := range []struct {
		code int
		more []string
		says string
	}{
		{exitFailed, nil, "/no/socket"},
		{exitUsage, []string{"--server", "oracle"}, "--server"},
		{exitUsage, []string{"--address", "localhost:3306"}, "numeric address"},
		{exitUsage, []string{"--user", ""}, "--user"},
		{exitUsage, []string{"-o", ""}, "-o"},
		{exitUsage, []string{"--log", "binary"}, "--log"},
		{exitUsage, []string{"--server", "postgresql", "--log", "slow"}, "--log"},
		{exitUsage, []string{"--tls", "yes"}, "--tls"},
		{exitUsage, []string{"--tls", "require"}, "socket"},
		{exitUsage, []string{"--tls-ca", "x"}, "--tls-ca"},
		{exitUsage, []string{"--password-file", "x", "--defaults-file", "y"}, "one of them"},
		{exitUsage, []string{"--for", "0s"}, "--for"},
		{exitUsage, []string{"--limit", "0"}, "--limit"},
		{exitUsage, []string{"--sample", "10"}, "--sample"},
		{exitUsage, []string{"--sample", "0%"}, "--sample"},
		{exitUsage, []string{"--sample", "NaN%"}, "--sample"},
		{exitUsage, []string{"x"}, "no arguments"},
	} {
		code, _, said := typed("", append(append([]string{"sql", "capture"}, good...), c.more...)...)
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%q exits with %d: %s", c.more, code, said)
		}
	}
}

// TestSQLFollow follows a log twice, with a checkpoint between: nothing counts twice.
func TestSQLFollow(t *testing.T) {
	dir := t.TempDir()
	name, checkpoint := filepath.Join(dir, "a.log"), filepath.Join(dir, "checkpoint")
	follow := func(more ...string) (code int, s log.Summary, said string) {
		args := append([]string{"sql", "inspect", "--follow", "--format", "json", name}, more...)
		code, out, said := typed("", args...)
		if code == exitOK {
			if err := json.Unmarshal([]byte(out), &s); err != nil {
				t.Fatal(err)
			}
		}
		return code, s, said
	}
	text := "261121  0:05:31\t     8 Connect\ta@b on d\n\t\t     8 Query\tSELECT 1\n\t\t     8 Query\tSELECT 2\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		code, s, said := follow("--for", "1ms", "--checkpoint", checkpoint)
		if code != exitOK || s.Account.Statements.Total != 2+i || s.Sessions.Total != 1 || s.Sessions.Begun != 0 {
			t.Errorf("exit %d, %q, %+v, %+v", code, said, s.Account, s.Sessions)
		}
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("\t\t     8 Query\tSELECT 3\n")
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(checkpoint); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can read the checkpoint: %v, %v", info, err)
	}
	empty, packed, plain := filepath.Join(dir, "empty"), filepath.Join(dir, "a.gz"), filepath.Join(dir, "a.sql")
	for path, text := range map[string]string{empty: "", packed: "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
		plain: "SELECT 1;\nSELECT 2;\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "one file", []string{name}}, {exitUsage, "--until", []string{"--until", "noon"}},
		{exitUsage, "is over", []string{"--until", "2001-01-01T00:00:00Z"}},
		{exitUsage, "one of them", []string{"--until", "17:00", "--for", "1s"}},
		{exitFailed, "--writes", []string{"--writes", "--checkpoint", checkpoint}},
	} {
		if code, _, said := follow(c.args...); code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("%q: exit %d, %q", c.args, code, said)
		}
	}
	for path, says := range map[string]string{empty: "--log-format", packed: "compressed", plain: "file of statements",
		filepath.Join(dir, "none"): "no such file"} {
		name = path
		if code, _, said := follow("--for", "1ms"); code != exitFailed || !strings.Contains(said, says) {
			t.Errorf("%s: exit %d, %q", path, code, said)
		}
	}
}
