package perf

import (
	"reflect"
	"strings"
	"testing"
)

const printed = `sh 123/123 12.000000001: 
	ffffffff81000010 do_syscall_64 ([kernel.kallsyms])
	ffffffff81000020 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
	    7f0000001000 __read (/usr/lib/x86_64-linux-gnu/libc.so.6)
	    7f0000002000 [unknown] (/usr/bin/dash)

a name: 1.5 with 2.000000: parts 9/9 12.500000000: 
	ffffffff81000010 [unknown] ([kernel.kallsyms])
	           47000 operator() (std::a (b)) (/tmp/x (deleted))

sh 123/123 12.600000000: 
	ffffffff81000010 do_syscall_64 ([kernel.kallsyms])
	ffffffff81000020 entry_SYSCALL_64_after_hwframe ([kernel.kallsyms])
	    7f0000001000 __read (/usr/lib/x86_64-linux-gnu/libc.so.6)
	    7f0000002000 [unknown] (/usr/bin/dash)

            lone     7/7     12.700000:     400000 main (/bin/lone)
sh 123/123 13.000000000: 
	    7f0000002000 [unknown] ([unknown])

`

func names(s Stack) string {
	var all []string
	for _, f := range s.Frames {
		all = append(all, f.Name)
	}
	return strings.Join(all, ";")
}

func TestParse(t *testing.T) {
	p, err := Parse(strings.NewReader(printed), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, s := range p.Stacks {
		got[names(s)] = s.Count
	}
	want := map[string]int64{
		"[dash];__read;entry_SYSCALL_64_after_hwframe;do_syscall_64": 2, "operator() (std::a (b));[kernel]": 1,
		"main": 1, "[unknown]": 1}
	if !reflect.DeepEqual(got, want) || p.Samples != 5 || p.Cut {
		t.Errorf("%v, %d samples, cut %v", got, p.Samples, p.Cut)
	}
	f := p.Stacks[0].Frames
	if f[0].Kernel || f[0].Known || f[1].Kernel || !f[1].Known || !f[3].Kernel || !f[3].Known {
		t.Errorf("%+v", f)
	}
	if p, err = Parse(strings.NewReader(printed), 12_000_000_002, 12_600_000_001); err != nil || p.Samples != 2 {
		t.Errorf("%+v, %v: two samples are of that time", p, err)
	}
	if p, err = Parse(strings.NewReader(""), 0, 0); err != nil || len(p.Stacks) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"nothing of this\n", strings.Repeat("x", mostLine+1), "x 1/1 a.000000001: \n"} {
		if _, err := Parse(strings.NewReader(bad), 0, 0); err == nil {
			t.Errorf("%.30q was read", bad)
		}
	}
	deep := "sh 1/1 1.000000000: \n" + strings.Repeat("\tffffffff81000010 again ([k])\n", 1000)
	if p, err = Parse(strings.NewReader(deep), 0, 0); err != nil || len(p.Stacks[0].Frames) != mostFrames {
		t.Errorf("%+v, %v", p, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(printed, int64(0), int64(0))
	f.Add("sh 1/1 1.000000000: \n\t0 a b) (c\n", int64(5), int64(1))
	f.Fuzz(func(t *testing.T, text string, from, to int64) {
		p, err := Parse(strings.NewReader(text), from, to)
		if err != nil {
			return
		}
		var n int64
		for _, s := range p.Stacks {
			n += s.Count
			if len(s.Frames) == 0 || len(s.Frames) > mostFrames || s.Count < 1 {
				t.Errorf("%+v", s)
			}
			for _, x := range s.Frames {
				if x.Name == "" || len(x.Name) > mostName {
					t.Errorf("%+v", x)
				}
			}
		}
		if n != p.Samples || n > int64(strings.Count(text, "\n"))+1 {
			t.Errorf("%d samples, and %d in stacks", p.Samples, n)
		}
	})
}
