package redact

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tare/internal/bundle"
	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/record"
)

// planted are texts as runs have them, each with the secrets in it that must not be found afterwards.
var planted = []struct {
	text    string
	secrets []string
}{
	{"docker:debian?host=ssh://bob@dock.corp.example", []string{"bob", "dock.", "corp.example"}},
	{"ssh carol@mach9 -p 22", []string{"carol", "mach9"}},
	{"frank%40prod-cluster", []string{"frank", "prod-cluster"}},
	{"\x1b[01;32mjane@bastion\x1b[0m:~$ ls", []string{"jane", "bastion"}},
	{`\x1b[01;32mlea@bastion2\x1b[0m:~$ ls`, []string{"lea@", "bastion2"}},
	{"mike@olympus:/data$ make", []string{"mike", "olympus"}},
	{`{"text":"one\nrita@delphi\ttwo"}`, []string{"rita", "delphi"}},
	{"Linux version 6.1 (builder@kbuild-7) (gcc 12) #1 SMP", []string{"builder", "kbuild-7"}},
	{"refused by nas01.eu.acme.example and mail.eu.acme.example, says nas01", []string{"nas01", "acme", "mail."}},
	{"from laptop-erin.lan", []string{"laptop-erin"}},
	{"see build17.widgets-inc.com for more on build17", []string{"build17", "widgets-inc"}},
	{"console=ttyS0 ip=10.1.1.2::10.1.1.1:255.255.255.0:myhostx:eth0:off quiet", []string{"myhostx", "10.1.1"}},
	{"root=/dev/nfs nfsroot=nfsbox:/exports/henry,vers=3", []string{"nfsbox", "henry"}},
	{"gandalf login: frodo", []string{"gandalf", "frodo"}},
	{"systemd[1]: Set hostname to <mordor-3>.", []string{"mordor-3"}},
	{"USER=samwise HOSTNAME=shire-1 PWD=/data/leo", []string{"samwise", "shire-1", "leo"}},
	{"cannot open /data/leo/tare/x: no such file", []string{"leo"}},
	{"bind /mnt/customers/nora on /work", []string{"customers", "nora"}},
	{"/media/julia/USBDISK is full, julia", []string{"julia", "USBDISK"}},
	{"exported /exports/henry.", []string{"henry"}},
	{"in /var/lib/jenkins/workspace/megacorp", []string{"megacorp"}},
	{"/run/user/1000/xeno and /dev/vg-phoenix/root and /usr/local/phoenix2/bin", []string{"xeno", "phoenix"}},
	{`D:\projects\icarus\x.vhdx`, []string{"icarus", "projects"}},
	{`"D:\\projects\\daedalus\\x.vhdx"`, []string{"daedalus"}},
	{"//fileserv/payroll on /mnt/x type cifs", []string{"fileserv", "payroll"}},
	{"sftp://oscar:hunter2@vault.corp.example:22/drop", []string{"oscar", "hunter2", "vault", "drop"}},
	{"~/skunkworks/a.c", []string{"skunkworks"}},
	{"hwaddr 525400aabbcc", []string{"525400aabbcc"}},
	{"-device e1000,mac=3CECEF123456", []string{"3CECEF123456"}},
	{"Internet address 5254.00aa.bbdd", []string{"5254.00aa.bbdd"}},
	{"root=PARTUUID=1a2b3c4d-02 ro", []string{"1a2b3c4d-02"}},
	{"root=UUID=ABCD-1234 LABEL=titan-root", []string{"ABCD-1234", "titan-root"}},
	{"/srv/projects/tare-run-0c86ada23d25-913566014/host-1/f", []string{"projects"}},
	{"/export/home/ivan/x", []string{"ivan"}},
}

// public are texts that stay as they are: what tare, the system and the distribution say.
var publicTexts = []string{
	"/tmp/tare-run-0c86ada23d25-913566014/host-1/f", "/var/tmp/tare-run-0c86ada23d25-913566014",
	"/usr/bin/qemu-system-x86_64", "/dev/vda /init",
	"/usr/lib/qemu/virtiofsd --socket-path", "/proc/sys/vm/swappiness", "/sys/fs/cgroup/cpu.max", "/etc/os-release",
	"/boot/vmlinuz-6.1.0-56-amd64",
	"usercopy/swapgs barriers and __user pointer sanitization", "16 MiB/s, GNU/Linux, I/O, and/or", "//10.0.2.2/share",
	"/tare-work /tare-mounts/bind",
	"(debian-kernel@lists.debian.org)", "chacha20-poly1305@openssh.com", "sha256:11115c6e", "debian@sha256:11e1b917",
	"#1 SMP PREEMPT_DYNAMIC @0",
	"get it: https://kubernetes.io/docs/tasks/tools", "getty@tty1.service", "Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz",
	"0c86ada23d25", "/dev/disk", "/", "a / b",
	"7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", "linux-image-6.1.0-56-amd64_6.1.192-2",
	"root.ext4 and disk.qcow2 of tare.data", "/scratch /mnt",
}

func leaks(text string, secrets []string) (found string) {
	for _, s := range secrets {
		if strings.Contains(strings.ToLower(text), strings.ToLower(s)) {
			return s
		}
	}
	return ""
}

func TestMaskFindsBySight(t *testing.T) {
	for _, p := range planted {
		m := newMask()
		m.learn(p.text)
		m.seal()
		if got := m.text(p.text); leaks(got, p.secrets) != "" {
			t.Errorf("%q became %q, which has %q", p.text, got, leaks(got, p.secrets))
		}
	}
	m := newMask()
	m.learn(strings.Join(publicTexts, "\n"))
	m.seal()
	for _, s := range publicTexts {
		if got := m.text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestMaskLearnsSpecs(t *testing.T) {
	for text, secrets := range map[string][]string{
		"e=docker:debian?host=ssh://bob@dock.corp.example":        {"bob", "dock.", "corp.example"},
		"e=docker:debian?host=tcp://dock7:2375":                   {"dock7"},
		"e=docker:registry.acme.example:5000/team/app:7?user=ben": {"acme", "team", "ben"},
		"e=podman:acmecorp/app":                                   {"acmecorp"},
		"e=docker?container=blackbird-db":                         {"blackbird"},
		"e=kubectl:payments-0?context=frank@prod-cluster&namespace=billing": {"payments", "frank", "prod-cluster",
			"billing"},
		"e=kubectl:payments-0?context=arn:aws:eks:eu:123456789012:cluster/acme": {"payments", "acme", "1234567"},
		"e=lima:jon-dev": {"jon-dev"},
		"e=ssh:nina@[fe80::77]:22?identity=/data/keys/nina_key": {"nina", "fe80"},
		"e=ssh:mach5?user=paul&options=ProxyJump=quinn@gate3:22,gate4": {"mach5", "paul", "quinn", "gate3",
			"gate4"},
		"e=command?argv=ssh -l carol mach9":                                        {"carol", "mach9"},
		"e=command?argv=docker --context=dave-ctx exec -i skylab sh -c":            {"dave-ctx", "skylab"},
		"e=command?argv=chroot '/srv/big secret/root'":                             {"secret"},
		"e=local?dir=/srv/acme-secret/proj":                                        {"acme"},
		"e=local?dir=/data/My Project/x":                                           {"project"},
		"e=dir:/exports/henry":                                                     {"henry"},
		"e=qemu?kernel=/data/leo/vmlinuz&append=ip=10.1.1.2:::255.0.0.0:myhostx::": {"leo", "myhostx"},
	} {
		s, err := env.ParseSpec(strings.ReplaceAll(text, " ", "%20"))
		if err != nil {
			t.Fatal(err)
		}
		m := newMask()
		m.learnPlan(&plan.Plan{Targets: []plan.Target{{Name: "e", Spec: s}}})
		m.seal()
		maskSpec(&s, m)
		// What a spec names is found in any text.
		for _, got := range []string{s.String(), m.text(strings.Join(secrets, " and "))} {
			if leak := leaks(got, secrets); leak != "" && got == s.String() {
				t.Errorf("%s became %s, which has %q", text, got, leak)
			}
		}
		if again, err := env.ParseSpec("e=" + s.String()); err != nil || again.String() != s.String() {
			t.Errorf("%s became %s: %v", text, s, err)
		}
	}
}

// plant appends a text to every string that v holds, but for those that name things of the plan or are words of tare's.
func plant(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.TrimSpace(v.String() + " " + text))
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		plant(v.Elem(), text)
	case reflect.Struct:
		for i := range v.NumField() {
			switch v.Type().Field(i).Name {
			case "Name", "Spec", "Of", "Target", "Workload", "Slot", "Metrics", "Samples", "Start", "Discarded",
				"Disks":
			default:
				plant(v.Field(i), text)
			}
		}
	case reflect.Slice:
		if v.Len() == 0 && v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			plant(v.Index(i), text)
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.ValueOf(map[string]string{"a.fact": text, "see " + text: "x"}))
		}
	}
}

// TestNoSecretSurvives plants every secret in every field of a bundle.
func TestNoSecretSurvives(t *testing.T) {
	all, secrets := "", []string{}
	for _, p := range planted {
		all += p.text + "\n"
		secrets = append(secrets, p.secrets...)
	}
	p := testPlan()
	p.Name, p.Question = planted[0].text, "what does jane@bastion pay for /mnt/customers/nora?"
	p.Workloads[0].Label = "build /data/leo of mike@olympus"
	p.Energy = &plan.Energy{From: "meter", Meter: []string{"read-plug", "--password", "open-sesame"}}
	secrets = append(secrets, "read-plug", "open-sesame")
	spec := env.Spec{Name: "one", Driver: "docker", Arg: "debian",
		Settings: map[string]string{"host": "ssh://bob@dock.corp.example", "dir": "/data/leo"}}
	p.Targets = append(p.Targets, plan.Target{Name: "one", Spec: spec, Text: spec.String()})
	dir := filepath.Join(t.TempDir(), "b")
	w, err := bundle.Create(dir, "0c86ada23d25", p)
	if err != nil {
		t.Fatal(err)
	}
	host := record.Environment{Target: record.Target{Name: "host", Spec: "local"}, Session: 1}
	one := record.Environment{Target: record.Target{Name: "one", Spec: spec.String()}, Session: 1}
	plant(reflect.ValueOf(&host).Elem(), all)
	plant(reflect.ValueOf(&one).Elem(), all)
	one.Inside.WorkDir, host.Inside.Hostname = "/data/leo/tare-run-0c86ada23d25-913566014/one-1", "hal9000"
	one.Of, one.Mount = "", nil
	secrets = append(secrets, "hal9000")
	if err := w.Environments([]record.Environment{host, one}); err != nil {
		t.Fatal(err)
	}
	for i, target := range []string{"host", "one"} {
		tr := testTrial(i)
		tr.Block, tr.Target, tr.Workload = 1, target, p.Workloads[0].Label
		plant(reflect.ValueOf(tr).Elem(), all+"hal9000")
		if err := w.Append(tr); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range planted {
		if _, err := w.Evidence(fmt.Sprintf("console-%d.txt", i), []byte(p.text+"\nhal9000\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(bundle.Finished, 3); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "r")
	if err := Bundle(dir, out, Secrets{}); err != nil {
		t.Fatal(err)
	}
	for name, content := range files(t, out) {
		if s := leaks(name+content, secrets); s != "" {
			at := strings.Index(strings.ToLower(content), strings.ToLower(s))
			t.Errorf("%s still has %q: %q", name, s, content[max(0, at-60):min(len(content), at+60)])
		}
	}
	if r, found := verify(t, out); !r.OK() || r.Trials != 2 {
		t.Errorf("the copy does not verify: %s", found)
	}
	b, err := bundle.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	e := b.Environments[1]
	if got, _ := b.Plan.Target("one"); !strings.HasPrefix(e.Inside.WorkDir,
		got.Spec.Settings["dir"]+"/tare-run-0c86ada23d25-") {
		t.Errorf("the work is in %s, which is not below %s", e.Inside.WorkDir, got.Spec.Settings["dir"])
	}
}
