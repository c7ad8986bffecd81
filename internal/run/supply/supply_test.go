package supply

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/sql/datadir"
	"tare/internal/sys/sql/trace"
)

// file creates a file.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func replays(p workload.Params) *plan.Workload {
	return &plan.Workload{Label: "sql.replay", Kind: "sql.replay", Params: p}
}

func maker(t *testing.T) *Maker {
	t.Helper()
	m := New(filepath.Join(t.TempDir(), "files"))
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// of returns the contents of a workload's files and checks their sizes and digests.
func of(t *testing.T, m *Maker, p workload.Params) map[string][]byte {
	t.Helper()
	files, err := m.Of(t.Context(), replays(p))
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string][]byte{}
	for param, f := range files {
		contents[param] = content(t, f)
		if sha256.Sum256(contents[param]) != f.Digest {
			t.Errorf("%s has another digest", param)
		}
	}
	return contents
}

func content(t *testing.T, f deploy.File) []byte {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f.Content, 0, f.Size+1))
	if err != nil || int64(len(b)) != f.Size {
		t.Fatalf("%d bytes of %d: %v", len(b), f.Size, err)
	}
	return b
}

const generalLog = "261121  0:05:31\t    8 Query\tSELECT 1\n\t\t    8 Query\tSELECT 2\n" +
	"\t\t    8 Query\tDELETE FROM a\n\t\t    8 Query\tDROP TABLE a\n\t\t    8 Query\tDELETE FROM b\n"

func TestFiles(t *testing.T) {
	log, dump := file(t, "a.log", generalLog), file(t, "a.sql.gz", zipped(t, "CREATE TABLE a (b INT);\n"))
	password := file(t, "password", "it's a secret\r\nand more\n")
	m := maker(t)
	p := workload.Params{"server": "mariadb", "log": log, "data": dump, "password-file": password, "tls-ca": "",
		"lanes": "4"}
	got := of(t, m, p)
	if len(got) != 3 {
		t.Fatalf("%d files", len(got))
	}
	if string(got["data"]) != "CREATE TABLE a (b INT);\n" {
		t.Errorf("the dump is %q", got["data"])
	}
	line, rest, _ := strings.Cut(string(got["password-file"]), "\n")
	if line != "it's a secret" || len(rest) < 20 || strings.Contains(rest, "more") {
		t.Errorf("the password is %q", got["password-file"])
	}
	tr, err := trace.Open(bytes.NewReader(got["log"]), int64(len(got["log"])))
	if err != nil {
		t.Fatal(err)
	}
	if m := tr.Meta(); m.Statements != (trace.Parts{Total: 5, Replayed: 2, Skipped: 3}) || len(m.Sources) != 1 ||
		m.Sources[0] != "a.log" || m.Start == 0 || m.Precision != 1e6 {
		t.Errorf("%+v", m)
	}

	if err := os.Remove(log); err != nil { // the file is kept
		t.Fatal(err)
	}
	p["lanes"] = "8"
	if again := of(t, m, p); !bytes.Equal(again["log"], got["log"]) {
		t.Error("a parameter that does not matter makes another file")
	}
	p["writes"] = "true"
	if _, err := m.Of(t.Context(), replays(p)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("with writes it is another file, and its log is gone: %v", err)
	}
	if files, err := m.Of(t.Context(), &plan.Workload{Kind: "fs.read", Params: p}); err != nil || len(files) > 0 {
		t.Errorf("a workload of another family has %d files: %v", len(files), err)
	}
}

// The account is reported before the run, and as a warning with its results.
func TestAccountIsSaid(t *testing.T) {
	log := file(t, "a.log", generalLog)
	w := replays(workload.Params{"server": "mariadb", "log": log})
	p := &plan.Plan{Workloads: []plan.Workload{*w, *w}}
	m := maker(t)
	if d := m.Doubts(w); d != nil {
		t.Errorf("before it is read: %v", d)
	}
	var said []string
	if err := m.Prepare(t.Context(), p, func(s string) { said = append(said, s) }); err != nil {
		t.Fatal(err)
	}
	const want = "2 of 5 statements are replayed; 3 skipped (2 of them: write: changes rows)"
	if len(said) != 1 || said[0] != log+": "+want {
		t.Errorf("%q", said)
	}
	if d := m.Doubts(w); len(d) != 1 || !strings.Contains(d[0].Text, want) || d[0].Code == "" || d[0].Remedy == "" {
		t.Errorf("%+v", d)
	}
	w = replays(workload.Params{"server": "mariadb", "log": log, "writes": "true"})
	if _, err := m.Of(t.Context(), w); err != nil || m.Doubts(w) != nil {
		t.Errorf("all is replayed, but for %v (%v)", m.Doubts(w), err)
	}
}

// Files that cannot be used are reported before the run, with their names.
func TestCheck(t *testing.T) {
	log := file(t, "a.log", generalLog)
	damaged := zipped(t, strings.Repeat(generalLog, 10))
	pg := file(t, "pg.log", "2020-03-11 20:40:43.250 UTC [1] u@d LOG:  statement: SELECT 1\n")
	folder := filepath.Dir(file(t, "PG_VERSION", "15\n"))
	running := filepath.Dir(file(t, "ibdata1", ""))
	if err := os.WriteFile(filepath.Join(running, "host.pid"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct{ params, want string }{
		{"log=" + log, ""}, {"log=" + log + ", " + log, ""}, {"log=shop data=shop", ""},
		{"log=" + missing, missing}, {"log=" + log + "," + missing, missing}, {"data=" + missing, missing},
		{"password-file=" + missing, missing}, {"tls-ca=" + missing, missing},
		{"log=-", "standard input"}, {"log=" + file(t, "empty", ""), "empty is empty"},
		{"log=" + file(t, "cut.gz", damaged[:5]), "cut.gz"},
		{"log=" + file(t, "poem", "Shall I compare thee\nto a summer's day?\n"), "poem"},
		{"log=" + pg, "pg.log is a log of postgresql, but the server is mariadb"},
		{"log=" + log + " log-format=gneral", "general"}, {"log=" + log + " zone=Nowhere", "zone"},
		{"data=" + folder, "data directory of postgresql, but the server is mariadb"},
		{"data=" + running, "host.pid exists"},
		{"data=" + t.TempDir(), "not the data directory"},
	} {
		p := workload.Params{"server": "mariadb"}
		last := ""
		for word := range strings.FieldsSeq(c.params) {
			if key, value, ok := strings.Cut(word, "="); ok {
				p[key], last = value, key
			} else {
				p[last] += " " + word // a path with a blank, or behind a comma
			}
		}
		err := Check(&plan.Plan{Workloads: []plan.Workload{*replays(p)}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.params, err, c.want)
		}
	}
}

// Later errors contain the name of the file, too, and leave no incomplete file.
func TestBroken(t *testing.T) {
	damaged := zipped(t, strings.Repeat(generalLog, 1000))
	for params, want := range map[string]string{
		"log=" + file(t, "cut.gz", damaged[:len(damaged)-20]):               "cut.gz: unexpected EOF",
		"data=" + file(t, "cut.sql.gz", damaged[:len(damaged)-20]):          "cut.sql.gz: unexpected EOF",
		"log=" + file(t, "only.log", "261121  0:05:31\t 8 Query\tDROP a\n"): "only.log contains no statement to replay",
		"password-file=" + file(t, "long", strings.Repeat("x", 5000)):       "long",
	} {
		key, value, _ := strings.Cut(params, "=")
		m := maker(t)
		if _, err := m.Of(t.Context(), replays(workload.Params{"server": "mariadb", key: value})); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", params, err, want)
		}
		if names, err := os.ReadDir(m.dir); err != nil || len(names) > 0 {
			t.Errorf("%s leaves %v (%v)", params, names, err)
		}
	}
}

func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := maker(t).Of(ctx, replays(workload.Params{"data": "shop"})); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The sessions of the shop make a valid trace.
func TestShop(t *testing.T) {
	for _, server := range []string{"mariadb", "postgresql"} {
		got := of(t, maker(t), workload.Params{"server": server, "log": "shop", "data": "shop", "items": "50",
			"views": "20"})
		tr, err := trace.Open(bytes.NewReader(got["log"]), int64(len(got["log"])))
		if err != nil {
			t.Fatal(err)
		}
		if m := tr.Meta(); m.Dialect != dialectOf(workload.Params{"server": server}) || tr.Sessions() != 20 ||
			m.Statements.Replayed < 60 || m.Span == 0 || m.Start == 0 || len(got["data"]) < 10_000 {
			t.Errorf("%d sessions, %+v, and %d bytes of data", tr.Sessions(), m, len(got["data"]))
		}
	}
}

func TestDataDirectory(t *testing.T) {
	dir := filepath.Dir(file(t, "ibdata1", "pages"))
	archive := of(t, maker(t), workload.Params{"server": "mariadb", "data": dir})["data"]
	to := filepath.Join(t.TempDir(), "data")
	if err := datadir.Unpack(bytes.NewReader(archive), to); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(to, "ibdata1")); err != nil || string(b) != "pages" {
		t.Errorf("%q, %v", b, err)
	}
}

// A run that is resumed has the log and the data that it began with.
func TestSame(t *testing.T) {
	log, dump := file(t, "a.log", generalLog), file(t, "a.sql", "CREATE TABLE a (b INT);\n")
	w := replays(workload.Params{"server": "mariadb", "log": log, "data": dump})
	p := &plan.Plan{Workloads: []plan.Workload{*w}}
	files, err := maker(t).Of(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	before := func(param string) string { d := files[param].Digest; return hex.EncodeToString(d[:]) }
	trials := []record.Trial{{Workload: "other", Figures: record.Figures{Checks: map[string]string{"trace": "1"}}},
		{Workload: w.Label}, {Workload: w.Label, Figures: record.Figures{
			Checks: map[string]string{"trace": before("log")}, State: map[string]string{"data": before("data")}}}}
	if err := maker(t).Same(t.Context(), p, trials); err != nil {
		t.Error(err)
	}
	for param, path := range map[string]string{"log": log, "data": dump} {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, append(text, "\t\t    8 Query\tSELECT 3;\n"...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		err = maker(t).Same(t.Context(), p, trials)
		if err == nil || !strings.Contains(err.Error(), param+": "+path+" has changed since the run began") {
			t.Errorf("%s: %v", param, err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTreesOfVariants: each target's tree is made and told apart from the others; one that is not there is named.
func TestTreesOfVariants(t *testing.T) {
	dirs := map[string]string{}
	for _, name := range []string{"old", "new"} {
		dirs[name] = t.TempDir()
		if err := os.WriteFile(filepath.Join(dirs[name], "prog"), []byte(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w := plan.Workload{Label: "command", Kind: "command", Params: workload.Params{"tree": dirs["old"]},
		Vary: map[string]workload.Params{"new": {"tree": dirs["new"]}}}
	p := &plan.Plan{Targets: []plan.Target{{Name: "old"}, {Name: "new"}}, Workloads: []plan.Workload{w}}
	if err := Check(p); err != nil {
		t.Fatal(err)
	}
	m := maker(t)
	if err := m.Prepare(t.Context(), p, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if len(m.made) != 2 {
		t.Errorf("%d files are made of two trees", len(m.made))
	}
	digests := map[[32]byte]bool{}
	for name := range dirs {
		files, err := m.Of(t.Context(), w.For(name))
		if err != nil {
			t.Fatal(err)
		}
		digests[files["tree"].Digest] = true
	}
	if len(digests) != 2 {
		t.Error("both targets get one tree")
	}
	w.Vary["new"]["tree"] = filepath.Join(dirs["new"], "nothing")
	if err := Check(p); err == nil || !strings.Contains(err.Error(), "nothing is no folder on this machine") {
		t.Errorf("%v", err)
	}
}
