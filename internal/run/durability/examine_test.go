package durability

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/record"
)

func TestConclude(t *testing.T) {
	declared := func(class string) record.Durability {
		return record.Durability{Verdict: record.Untested, Class: class, Text: "declared"}
	}
	seen := record.FlushTest{Name: record.FlushWatch, Verdict: record.Propagated, Class: ClassFlushes, Text: "seen"}
	unseen := record.FlushTest{Name: record.FlushWatch, Verdict: record.Untested, Class: ClassIgnores, Text: "not seen"}
	silent := record.FlushTest{Name: record.FlushWatch, Verdict: record.Untested, Class: ClassUnknown,
		Text: "no rights"}
	cheap := record.FlushTest{Name: record.FlushCost, Verdict: record.Untested, Class: ClassIgnores, Text: "cheap"}
	dear := record.FlushTest{Name: record.FlushCost, Verdict: record.Untested, Class: ClassUnknown, Text: "dear"}
	for name, c := range map[string]struct {
		declared record.Durability
		tests    []record.FlushTest
		memory   string
		verdict  string
		class    string
		text     string
	}{
		"nothing tried": {declared(ClassFlushes), nil, "", record.Untested, ClassFlushes, "declared"},
		"seen": {declared(ClassUnknown), []record.FlushTest{seen, dear}, "", record.Propagated,
			ClassFlushes, "seen"},
		"seen, though declared away": {declared(ClassIgnores), []record.FlushTest{seen, dear}, "", record.Propagated,
			ClassFlushes, "seen"},
		"seen, though cheap": {declared(ClassFlushes), []record.FlushTest{seen, cheap}, "", record.Propagated,
			ClassFlushes, "seen"},
		"seen on its way to memory": {declared(ClassFlushes), []record.FlushTest{seen, dear}, "tmpfs",
			record.Propagated, ClassMemory, "tmpfs"},
		"not seen": {declared(ClassFlushes), []record.FlushTest{unseen, dear}, "", record.Untested,
			ClassIgnores, "not seen"},
		"declared away, and not seen": {declared(ClassIgnores), []record.FlushTest{unseen, dear}, "", record.Untested,
			ClassIgnores, "declared; not seen"},
		"not watched, but cheap": {declared(ClassFlushes), []record.FlushTest{silent, cheap}, "", record.Untested,
			ClassIgnores, "cheap"},
		"not watched, and dear": {declared(ClassFlushes), []record.FlushTest{silent, dear}, "", record.Untested,
			ClassFlushes, "declared"},
	} {
		d := Conclude(c.declared, c.tests, c.memory)
		if d.Verdict != c.verdict || d.Class != c.class || !strings.Contains(d.Text, c.text) ||
			len(d.Tests) != len(c.tests) {
			t.Errorf("%s: %+v", name, d)
		}
		if (d.Layer != "") != (d.Verdict == record.Propagated) {
			t.Errorf("%s: layer %q", name, d.Layer)
		}
	}
}

func TestJudgeWatch(t *testing.T) {
	for _, c := range []struct {
		seen           int
		hidden         string
		verdict, class string
	}{
		{32, "", record.Propagated, ClassFlushes},
		{64, "", record.Propagated, ClassFlushes},
		{31, "", record.Untested, ClassUnknown},
		{5, "", record.Untested, ClassUnknown},
		{4, "", record.Untested, ClassIgnores},
		{0, "", record.Untested, ClassIgnores},
		{0, "it is hidden", record.Untested, ClassUnknown},
		{32, "it is hidden", record.Propagated, ClassFlushes},
	} {
		test := record.FlushTest{Verdict: record.Untested, Class: ClassUnknown, Asked: 32, Seen: c.seen}
		(&Subject{Hidden: c.hidden}).judgeWatch(&test, "")
		if test.Verdict != c.verdict || test.Class != c.class || test.Text == "" {
			t.Errorf("%+v: %+v", c, test)
		}
	}
}

// failingTarget is a target in which nothing can be run.
type failingTarget struct{ calls int }

func (f *failingTarget) Run(context.Context, wire.Run) (deploy.Outcome, error) {
	f.calls++
	return deploy.Outcome{}, errors.New("no space left on device")
}

func TestExamineFailing(t *testing.T) {
	image := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &failingTarget{}
	tests, err := Examine(t.Context(), Subject{Worker: f, Image: image})
	if err != nil || len(tests) != 2 || f.calls == 0 {
		t.Fatalf("%+v, %v", tests, err)
	}
	for _, test := range tests {
		if test.Verdict != record.Untested || test.Class != ClassUnknown || !strings.HasPrefix(test.Text, "not ") {
			t.Errorf("%+v", test)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Examine(ctx, Subject{Worker: f, Image: image}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// TestImage reads the command line that tare gives to QEMU.
func TestImage(t *testing.T) {
	node := func(name, file string) string {
		return `{"node-name":"` + name + `","driver":"raw","file":{"driver":"file","filename":"` + file + `"}}`
	}
	outside := record.Facts{Command: []string{"qemu", "-blockdev", node("disk1", "/x/one,a"), "-device", "y",
		"-blockdev", node("scratch", "/x/scratch"), "-blockdev", "driver=raw"}}
	for _, c := range []struct {
		e    record.Environment
		want string
	}{
		{record.Environment{Target: record.Target{Outside: outside}}, "/x/scratch"},
		{record.Environment{}, ""},
		{record.Environment{Target: record.Target{Outside: outside,
			Files: record.Files{Mount: &record.Mount{Kind: "9p"}}}}, ""},
		{record.Environment{Target: record.Target{Outside: outside,
			Files: record.Files{Mount: &record.Mount{Kind: "rsync"}}}}, "/x/scratch"},
		{record.Environment{Target: record.Target{Outside: outside,
			Files: record.Files{Mount: &record.Mount{Kind: "disk",
				Command: []string{"mke2fs", "-q", "/x/one,a"}}}}}, "/x/one,a"},
		{record.Environment{Target: record.Target{Outside: outside,
			Files: record.Files{Mount: &record.Mount{Kind: "disk"}}}}, ""},
	} {
		if got := Image(&c.e); got != c.want {
			t.Errorf("%+v: %q, want %q", c.e.Mount, got, c.want)
		}
	}
}
