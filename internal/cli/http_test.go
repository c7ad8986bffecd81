package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"tare/internal/sys/httplog"
	"tare/internal/sys/ledger"
)

func TestHTTPInspect(t *testing.T) {
	run := func(in string, args ...string) (code int, out, said string) {
		return typed(in, append([]string{"http", "inspect"}, args...)...)
	}
	const first = `192.0.2.1 - - [23/Nov/2026:10:00:00 +0000] "GET /a?x=1 HTTP/1.1" 200 5 "-" "m"` + "\nno record\n"
	const second = `192.0.2.1 - - [23/Nov/2026:10:00:02 +0000] "POST /a HTTP/1.1" 302 5 "-" "m"` + "\n" +
		`192.0.2.2 - - [23/Nov/2026:10:00:02 +0000] "GET /a?x=2 HTTP/1.1" 404 5 "-" "m"` + "\n"
	dir := t.TempDir()
	rotated, now := filepath.Join(dir, "access.log.1.gz"), filepath.Join(dir, "access log")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(first)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{rotated: packed.String(), now: second} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, said := run("", "--format", "json", rotated, now)
	var s httplog.Summary
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != exitOK || said != "" {
		t.Fatalf("exit %d, %q, %v\n%s", code, said, err, out)
	}
	schema, err := jsonschema.NewCompiler().Compile("../../docs/http-inspect.schema.json")
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
	if want := (ledger.Parts{Total: 3, Replayed: 2, Skipped: 1}); s.Account.Requests != want {
		t.Errorf("requests %+v, want %+v", s.Account.Requests, want)
	}
	if b := s.Account.Bytes; b.Total != int64(len(first+second)) || b.Lost != int64(len("no record\n")) {
		t.Errorf("bytes %+v", b)
	}
	if s.Time.Seconds != 2 || s.Sessions.Total != 2 || s.Distinct != 2 || s.Fingerprints[0].Requests != 2 ||
		s.Fingerprints[0].Failed != 1 {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct {
		in   string
		args []string
		code int
		want []string
	}{
		{first, []string{"-"}, exitOK, []string{"GET /a?x=", "lost     lines that are no record", "sessions  1;"}},
		{"", []string{"--request", "2", rotated, now}, exitOK, []string{"session 2, 2026-11-23T10:00:02Z, status 404",
			"GET /a?x=2", "User-Agent: m"}},
		{"", []string{"--request", "3", rotated, now}, exitFailed, []string{"has 3 requests"}},
		{"", []string{"--top", "-1", now}, exitUsage, []string{"--top"}},
		{"", []string{"--format", "xml", now}, exitUsage, []string{"text, json or html"}},
		{first + second, []string{"--format", "html", "-"}, exitOK, []string{"<h2>Over time</h2>", "of them failed"}},
		{"", []string{"--zone", "Nowhere", now}, exitUsage, []string{"--zone"}},
		{"", []string{"--log-format", "combind", now}, exitFailed, []string{"combined"}},
		{"", []string{"--follow", "--for", "1ms", now}, exitOK, []string{"POST /a", "2 of 2 fingerprints"}},
		{"", []string{"--follow", "--for", "1ms", rotated}, exitFailed, []string{"it is compressed with gzip"}},
		{"", []string{"--follow", "--request", "1", now}, exitUsage, []string{"--follow and --request"}},
		{"", []string{"--follow", rotated, now}, exitUsage, []string{"takes one file"}},
		{"", []string{"--until", "17:30", now}, exitUsage, []string{"no effect without --follow"}},
		{"hello\n", []string{"-"}, exitFailed, []string{"its format is not recognised"}},
		{"", []string{now + "x"}, exitFailed, []string{"no such file"}},
	} {
		code, out, said := run(c.in, c.args...)
		if code != c.code {
			t.Errorf("%q: exit %d, want %d", c.args, code, c.code)
		}
		for _, want := range c.want {
			if !strings.Contains(out+said, want) {
				t.Errorf("%q: no %q in\n%s%s", c.args, want, out, said)
			}
		}
	}
}
