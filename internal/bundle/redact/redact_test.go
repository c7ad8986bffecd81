package redact

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/bundle"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

func TestMaskText(t *testing.T) {
	m := newMask()
	m.host("lab7.corp.example.net")
	m.user("alice")
	m.word("moonshot")
	m.name(ids, "S3Z8NB0K")
	m.learn("saw /home/bob/x and C:\\Users\\Carol\\y")
	m.seal()
	for _, c := range [][2]string{
		{"", ""},
		{"nothing to hide", "nothing to hide"},
		{"alice@lab7.corp.example.net:22", "anon-user-1@anon-host-1:22"},
		{"LAB7 and lab7", "anon-host-2 and anon-host-2"},
		{"label lab70 xlab7", "label lab70 xlab7"},
		{"user%40lab7?x", "user%40anon-host-2?x"},
		{"other.corp.example.net", "anon-host-3"},
		{"/home/alice/secret/disk.img,cache=none", "/home/anon-user-1/anon-path-1,cache=none"},
		{"dir=/home/alice", "dir=/home/anon-user-1"},
		{`C:\Users\Carol\AppData`, `C:\Users\anon-user-2\anon-path-2`},
		{"bob's", "anon-user-3's"},
		{"/root/plans", "/root/anon-path-3"},
		{"/rootfs /home x/rootfs ./rootfs/x", "/anon-path-4 /home x/rootfs ./rootfs/x"},
		{"Moonshot", "anon-word-1"},
		{"from 10.1.2.3 to 10.1.2.3:80 and 10.9.9.9.", "from 192.0.2.1 to 192.0.2.1:80 and 192.0.2.2."},
		{"127.0.0.1 0.0.0.0 255.255.255.0 10.0.2.2", "127.0.0.1 0.0.0.0 255.255.255.0 10.0.2.2"},
		{"kernel 6.1.0.23-amd64, 1.2.3.4.5, 300.1.1.1", "kernel 6.1.0.23-amd64, 1.2.3.4.5, 300.1.1.1"},
		{"inet6 fe80::1234:5%eth0 ::1 std::string 12:34:56 0000:00:1f.2",
			"inet6 2001:db8::1%eth0 ::1 std::string 12:34:56 0000:00:1f.2"},
		{"dial fe80::7: refused, fd00::: no route, fe80::7:x, $1::text, ::1: busy",
			"dial 2001:db8::2: refused, 2001:db8::3: no route, 2001:db8::2:x, $1::text, ::1: busy"},
		{"link/ether 3c:ec:ef:12:34:56 brd", "link/ether 00:00:5e:00:53:01 brd"},
		{"root=UUID=0b1c2d3e-0000-1111-2222-333344445555 ro", "root=UUID=00000000-0000-4000-8000-000000000001 ro"},
		{"/dev/disk/by-id/nvme-Samsung_1TB", "/dev/disk/by-id/anon-id-1"},
		{"Serial Number: WX123456", "Serial Number: anon-id-2"},
		{"disk S3Z8NB0K", "disk anon-id-3"},
		{"bad \xff alice \xfe", "bad \xff anon-user-1 \xfe"},
	} {
		if got := m.text(c[0]); got != c[1] {
			t.Errorf("%q became %q, want %q", c[0], got, c[1])
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add("alice@lab7 10.1.1.1 /home/alice/x fe80::1", "lab7", "alice")
	f.Add("\xff::\xff", "a.b.c", "(")
	f.Fuzz(func(t *testing.T, text, host, user string) {
		m := newMask()
		m.host(host)
		m.user(user)
		m.learn(text)
		m.seal()
		once := m.text(text)
		if again := m.text(text); again != once {
			t.Errorf("%q became %q, then %q", text, once, again)
		}
	})
}

// secretBundle has what must not be seen in every file.
func secretBundle(t *testing.T) string {
	t.Helper()
	p := testPlan()
	p.Name = "what moonshot costs on alicepc"
	p.Slurm = &plan.Slurm{Account: "alice", Partition: "moonshot", Sbatch: []string{"--mail-user=alice"}}
	lab := env.Spec{Name: "lab7", Driver: "ssh", Arg: "alice@lab7.corp.example.net",
		Settings: map[string]string{"dir": "/home/alice/My Project/tmp"}}
	p.Targets = append(p.Targets, plan.Target{Name: lab.Name, Spec: lab, Text: lab.String()})
	p.Workloads[0].Label = "build in /home/alice/src"
	p.Workloads[0].Work = map[string]int64{"host": 100, "lab7": 50}
	dir := filepath.Join(t.TempDir(), "b")
	w, err := bundle.Create(dir, "run-1", p)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Environments([]record.Environment{
		{Session: 1, Target: record.Target{Name: "host", Spec: "local", Inside: record.Facts{Hostname: "alicepc",
			WorkDir: "/home/alice/work",
			Extra: map[string]string{"disk.serial": "S3Z8NB0K", "net.addr": "10.1.2.3",
				"kernel.cmdline": "root=UUID=0b1c2d3e-0000-1111-2222-333344445555"}}}},
		{Session: 1, Target: record.Target{Name: "lab7", Spec: lab.String(),
			Outside: record.Facts{Command: []string{"ssh", "-l", "alice", "lab7.corp.example.net"}},
			Retries: []record.Failure{{Kind: "open", Message: "connect to 10.1.2.3: refused",
				Evidence: "alice@lab7: denied"}}}},
	}); err != nil {
		t.Fatal(err)
	}
	for i, target := range []string{"host", "lab7"} {
		tr := testTrial(i)
		tr.Block, tr.Target, tr.Workload = 1, target, p.Workloads[0].Label
		tr.State = map[string]string{"peer 10.1.2.3": "3c:ec:ef:12:34:56"}
		tr.Warnings = []record.Warning{{Code: "x", Text: "the disk S3Z8NB0K of bob's is slow: /home/bob"}}
		if err := w.Append(tr); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Evidence("lab7-console.txt",
		[]byte("lab7 login: alice\nmoonshot ready at 10.1.2.3, bob\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(bundle.Finished, 3); err != nil {
		t.Fatal(err)
	}
	f := &record.Flame{Workload: p.Workloads[0].Label, Target: "lab7", Baseline: "host", Unit: "run", Rounds: 1,
		Frames: []record.FlameFrame{{Name: "all", NS: 2, BaseNS: 1}, {Depth: 1, Name: "moonshot boot", NS: 1},
			{Depth: 1, Name: "memcpy@GLIBC", NS: 1}}}
	if _, err := bundle.Keep(dir, f); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRedact(t *testing.T) {
	dir := secretBundle(t)
	out, again := filepath.Join(t.TempDir(), "r"), filepath.Join(t.TempDir(), "r")
	secrets := Secrets{Words: []string{"moonshot"}}
	for _, o := range []string{out, again} {
		if err := Bundle(dir, o, secrets); err != nil {
			t.Fatal(err)
		}
	}
	one, two := files(t, out), files(t, again)
	for name, content := range one {
		if two[name] != content {
			t.Errorf("%s differs between two redactions", name)
		}
		for _, secret := range []string{"alice", "bob", "lab7", "corp.example", "10.1.2.3", "S3Z8NB0K", "3c:ec:ef",
			"0b1c2d3e", "moonshot", "Project", "/src"} {
			if strings.Contains(strings.ToLower(name+content), strings.ToLower(secret)) {
				t.Errorf("%s still has %q:\n%s", name, secret, content)
			}
		}
	}
	if r, found := verify(t, out); !r.OK() || r.Trials != 2 {
		t.Errorf("the copy does not verify: %s", found)
	}
	b, err := bundle.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	if b.Manifest.Redacted["host names"] == 0 || b.Manifest.RunID != "run-1" {
		t.Errorf("the manifest says %+v", b.Manifest)
	}
	trials, err := b.Load()
	if err != nil || len(trials) != 2 {
		t.Fatalf("%d trials: %v", len(trials), err)
	}
	// One thing has one name everywhere, and figures stay.
	other := b.Plan.Targets[1].Name
	if trials[1].Target != other || b.Environments[1].Name != other || b.Plan.Workloads[0].Work[other] != 50 {
		t.Errorf("target %q, environment %q, plan %q", trials[1].Target, b.Environments[1].Name, other)
	}
	kept, err := b.Flames()
	if err != nil || len(kept) != 1 || kept[0].Target != other || kept[0].Workload != b.Plan.Workloads[0].Label ||
		kept[0].Frames[0].NS != 2 {
		t.Errorf("%v, graphs %+v", err, kept)
	}
	if trials[1].Metrics["eps"] != 1.5 || trials[0].Checks["n"] != "1228" {
		t.Errorf("figures changed: %+v", trials)
	}
	if _, err := os.Stat(filepath.Join(out, bundle.EvidenceDir, other+"-console.txt")); err != nil {
		t.Error(err)
	}
}

// TestServerIsRedacted: with a label of its own, the parameters alone tell whose server and whose log it was.
func TestServerIsRedacted(t *testing.T) {
	p := testPlan()
	p.Workloads = []plan.Workload{
		{Label: "w", Kind: "sql.replay", Params: workload.Params{
			"log":  "logs/acme-monday.log.gz, /srv/acme-tuesday.log",
			"data": `D:\dumps\acme-orders.sql`, "user": "gerda", "password-file": "../gerda.pw",
			"tls-ca": "acme-ca.pem", "database": "ledger", "address": "127.0.0.1:3306", "pace": "flat"}},
		{Label: "v", Kind: "sql.replay", Params: workload.Params{"log": "shop", "data": "shop", "user": "root",
			"database": "test"}}}
	dir, out := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "r")
	w, err := bundle.Create(dir, "run-1", p)
	if err != nil {
		t.Fatal(err)
	}
	tr := testTrial(1)
	tr.Warnings = []record.Warning{{Code: "x", Text: "acme-tuesday.log of ACME-orders.sql: access denied for 'gerda' " +
		"to ledger.accounts; acme-ca.pem, gerda.pw; a test of the shop"}}
	if err := w.Append(tr); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(bundle.Finished, 3); err != nil {
		t.Fatal(err)
	}
	if err := Bundle(dir, out, Secrets{}); err != nil {
		t.Fatal(err)
	}
	for name, content := range files(t, out) {
		for _, secret := range []string{"acme", "gerda", "ledger"} {
			if strings.Contains(strings.ToLower(content), secret) {
				t.Errorf("%s still has %q:\n%s", name, secret, content)
			}
		}
	}
	b, err := bundle.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	trials, err := b.Load()
	if err != nil || !strings.HasSuffix(trials[0].Warnings[0].Text, "; a test of the shop") {
		t.Errorf("%v, %v", trials, err)
	}
	for k, v := range p.Workloads[1].Params {
		if got := b.Plan.Workloads[1].Params[k]; got != v {
			t.Errorf("%s=%s became %s", k, v, got)
		}
	}
}

func TestRedactRefuses(t *testing.T) {
	dir := secretBundle(t)
	if err := Bundle(dir, t.TempDir(), Secrets{}); err == nil {
		t.Error("a folder was overwritten")
	}
	if err := os.WriteFile(filepath.Join(dir, bundle.PlanFile), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Bundle(dir, filepath.Join(t.TempDir(), "r"), Secrets{}); err == nil {
		t.Error("a damaged bundle was redacted, and its damage hidden")
	}
}

// TestRedactMark holds that what a fleet calls a host is replaced where only the mark has it.
func TestRedactMark(t *testing.T) {
	for _, host := range []string{"rack12-node7", "alice@rack12-node7.corp.example:2222"} {
		dir, out := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "r")
		w, err := bundle.Create(dir, "run-1", testPlan())
		if err != nil {
			t.Fatal(err)
		}
		mark := &bundle.Shard{Plan: "p", Number: 1, Of: 2, Host: host, Machine: "0123456789abcdef",
			Facts: map[string]string{"cpu.microcode": "0x1"}}
		if err := errors.Join(w.Mark(mark), w.Finish(bundle.Finished, 1), Bundle(dir, out, Secrets{})); err != nil {
			t.Fatal(err)
		}
		b, err := bundle.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		s := b.Manifest.Shard
		for _, secret := range []string{"rack12", "alice", "corp"} {
			if strings.Contains(s.Host, secret) {
				t.Errorf("%s is still called %q", host, s.Host)
			}
		}
		if s.Machine != mark.Machine || s.Number != 1 || s.Facts["cpu.microcode"] != "0x1" {
			t.Errorf("the mark says %+v", s)
		}
	}
}
