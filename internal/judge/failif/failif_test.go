package failif

import (
	"fmt"
	"strings"
	"testing"

	"tare/internal/unit"
)

func figures() []Figure {
	return []Figure{
		{Name: Ratio, Target: "vm:virtiofs", Workload: "fs.smallfiles", Kind: "fs.smallfiles", Metric: "files_per_s",
			Primary: true, Center: 2.4, Low: 2.3, High: 2.5},
		{Name: Ratio, Target: "vm:virtiofs", Workload: "fs.smallfiles", Kind: "fs.smallfiles", Metric: "p99_us",
			Center: 3, Low: 1.9, High: 4},
		{Name: Ratio, Target: "box", Workload: "fs.randread bs=4KiB", Kind: "fs.randread", Metric: "iops",
			Primary: true, Center: 1, Low: 0.99, High: 1.01},
		{Name: Ratio, Target: "box", Workload: "fs.randread bs=1MiB,direct", Kind: "fs.randread", Metric: "iops",
			Primary: true, Center: 0.8, Low: 0.75, High: 0.85},
		{Name: Ratio, Target: "box", Workload: "cpu.prime", Kind: "cpu.prime", Metric: "eps", Primary: true,
			Doubt: "WITHHELD: the work differs"},
		{Name: Value, Target: "host", Workload: "fs.seqwrite", Kind: "fs.seqwrite", Metric: "mib", Primary: true,
			Unit: "MiB/s", Center: 410, Low: 400, High: 420},
		{Name: Value, Target: "host", Workload: "syscall", Kind: "syscall", Metric: "ns", Primary: true, Unit: "ns",
			Center: 62, Low: 60, High: 64},
	}
}

func TestConditions(t *testing.T) {
	for expr, want := range map[string]State{
		"ratio(vm:virtiofs, fs.smallfiles) > 2.0": Holds,
		// the low end must be above
		"ratio(vm:virtiofs, fs.smallfiles) > 2.3":                                                           Unknown,
		"ratio(vm:virtiofs, fs.smallfiles) >= 2.3":                                                          Holds,
		"ratio(vm:virtiofs, fs.smallfiles) > 2.4":                                                           Unknown,
		"ratio(vm:virtiofs, fs.smallfiles) > 2.5":                                                           No,
		"ratio(vm:virtiofs, fs.smallfiles) < 2.6":                                                           Holds,
		"ratio(vm:virtiofs, fs.smallfiles) <= 2.2":                                                          No,
		"ratio(vm:virtiofs,fs.smallfiles,p99_us)>2":                                                         Unknown,
		"ratio(vm:virtiofs, fs.smallfiles) > 200%":                                                          Holds,
		"ratio(vm:virtiofs, fs.smallfiles) > 2x":                                                            Holds,
		"slower(vm:virtiofs, fs.smallfiles, 100%)":                                                          Holds,
		"slower(vm:virtiofs, fs.smallfiles, 0.5, p99_us)":                                                   Holds,
		"slower(box, fs.randread bs=4KiB, 10%)":                                                             No,
		`faster(box, "fs.randread bs=1MiB,direct", 10%)`:                                                    Holds,
		`faster(box, 'fs.randread bs=1MiB,direct', 25%)`:                                                    Unknown,
		"ratio(box, cpu.prime) > 1":                                                                         Unknown,
		"not ratio(box, cpu.prime) > 1":                                                                     Unknown,
		"!slower(box, fs.randread bs=4KiB, 10%)":                                                            Holds,
		"value(host, fs.seqwrite) < 0.5 GiB/s":                                                              Holds,
		"value(host, fs.seqwrite) < 410MiB/s":                                                               Unknown,
		"value(host, fs.seqwrite) < 430":                                                                    Holds,
		"value(host, syscall) > 0.05 us":                                                                    Holds,
		"value(host, syscall) > 5e1ns and value(host, syscall) < 70 ns":                                     Holds,
		"ratio(box, cpu.prime) > 1 or slower(vm:virtiofs, fs.smallfiles, 1%)":                               Holds,
		"ratio(box, cpu.prime) > 1 && slower(vm:virtiofs, fs.smallfiles, 1%)":                               Unknown,
		"ratio(box, cpu.prime) > 1 && (slower(box, fs.randread bs=4KiB, 9%) || ratio(box, cpu.prime) < 1)":  Unknown,
		"ratio(box, cpu.prime) > 1 && slower(box, fs.randread bs=4KiB, 9%)":                                 No,
		"slower(vm:virtiofs, fs.smallfiles, 1%) or ratio(box, cpu.prime) > 1 and ratio(box, cpu.prime) > 1": Holds,
	} {
		c, err := Parse(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		o, err := c.Eval(figures())
		if err != nil || o.State != want || o.Text == "" {
			t.Errorf("%s: state %d, want %d: %q %v", expr, o.State, want, o.Text, err)
		}
	}
}

// TestUnitsAreReadAsTheyAreShown gives each figure as reports show it as its own limit.
func TestUnitsAreReadAsTheyAreShown(t *testing.T) {
	for _, u := range []string{"events/s", "ops/s", "files/s", "operation", "MiB/s", "KiB/s", "MB/s", "B", "s", "us",
		"ns", "commits/h"} {
		for v := 1.234e-3; v < 1e13; v *= 9.87 {
			f := []Figure{{Name: Value, Target: "box", Workload: "w", Primary: true, Unit: u, Center: v, Low: 0.99 * v,
				High: 1.01 * v}}
			expr := fmt.Sprintf("value(box, w) > %s and value(box, w) < 1e300", unit.Format(0.98*v, u))
			c, err := Parse(expr)
			if err != nil {
				t.Error(err)
				continue
			}
			if o, err := c.Eval(f); err != nil || o.State != Holds {
				t.Errorf("%s of %v %s: %v %+v", expr, v, u, err, o)
			}
		}
	}
	events := []Figure{{Name: Value, Target: "box", Workload: "w", Primary: true, Unit: "events/s", Center: 12345,
		Low: 12344, High: 12346}}
	for expr, want := range map[string]string{
		"value(box, w) > 5 ev/s": "", "value(box, w) > 5 k ev/s": "", "value(box, w) > 12k": "",
		"value(box, w) > 12,000 events/s":                   "",
		"value(box, w) > 0.012 M ev/s or value(box, w) > 1": "", "value(box, w)>12 k or value(box, w)>1 M": "",
		"value(box, w) > 5 k ops/s": `in "k ops/s", the figure in "events/s"`, "value(box, w) > 5 k ev": `in "k ev"`,
		"value(box, w) > 12,00":    "expected and, or",
		"value(box, w) > 5 ev/s x": "expected and, or", "value(box, w) > 5 M/s": `in "M/s", the figure in "events/s"`,
	} {
		c, err := Parse(expr)
		var o Outcome
		if err == nil {
			o, err = c.Eval(events)
		}
		if want == "" && (err != nil || o.State != Holds) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v %+v, want %q", expr, err, o, want)
		}
	}
	// Bytes have two families of prefixes: one letter does not say which.
	if _, err := convert(5, "M", "MiB/s"); err == nil {
		t.Error("5 M is taken for 5 MiB/s")
	}
}

func TestSlowerMeansTheChangeWhereThereIsOne(t *testing.T) {
	f := append(figures(), Figure{Name: Change, Target: "vm:virtiofs", Workload: "fs.smallfiles", Primary: true,
		Center: 1, Low: 0.99, High: 1.01})
	c, err := Parse("slower(vm:virtiofs, fs.smallfiles, 10%)")
	if err != nil {
		t.Fatal(err)
	}
	if o, err := c.Eval(f); err != nil || o.State != No {
		t.Errorf("%+v %v", o, err)
	}
}

// TestTheMistakeIsPointedAt holds the mark below the first character of what is wrong, whatever stands before it.
func TestTheMistakeIsPointedAt(t *testing.T) {
	for expr, at := range map[string]string{
		"ratio(a, b) >> 2":                  "> 2",
		"ratio(a, b) > 1 and foo(c) < 2":    "foo(c)",
		"ratio(a, b) > 2 MB":                "MB",
		"ratio(größe, \"wörk\") > 2 MB":     "MB",
		"ratio(a,\tb\x1b[31m) > 1 or x":     "x",
		"not slower(a, b, 10)":              "slower",
		"value(a, b) > 1 or ratio(a) > 2":   "ratio(a)",
		"ratio(a, b) > 1 and (ratio(c, d) ": "",
	} {
		_, err := Parse(expr)
		if err == nil {
			t.Errorf("%q is accepted", expr)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != 3 || strings.ContainsAny(err.Error(), "\t\x1b") {
			t.Errorf("%q: %q", expr, err)
			continue
		}
		want := len([]rune(expr[:strings.LastIndex(expr, at)])) + 4
		if mark := strings.Index(lines[2], "^"); mark != want {
			t.Errorf("%q: the mark is in column %d, want %d:\n%v", expr, mark, want, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	for expr, want := range map[string]string{
		"":                                       "expected ratio",
		"ration(a, b) > 1":                       `did you mean "ratio"?`,
		"ratio(a, b)":                            "expected >, >=, < or <=",
		"ratio(a, b) > ":                         "expected a number at the end",
		"ratio(a, b) > x":                        "expected a number",
		"ratio(a, b) > 1 ms":                     "has no unit",
		"ratio(a, b) > 1e999":                    "expected a number",
		"ratio(a, b) > NaN":                      "expected a number",
		"ratio(a) > 1":                           "takes target, workload",
		"ratio(a, , b) > 1":                      "expected a name",
		`ratio("a, b) > 1`:                       "not closed",
		"ratio(a, b) > 1)":                       "or the end",
		"(ratio(a, b) > 1":                       "expected )",
		"slower(a, b)":                           "takes target, workload, share",
		"slower(a, b, x%)":                       "not a share",
		"slower(a, b, -5%)":                      "not a share",
		"slower(a, b, 10)":                       "write 10% or",
		strings.Repeat("(", 100):                 "nested more than",
		strings.Repeat("x", 5000):                "longer than",
		"\xff":                                   "not UTF-8",
		"ratio(vm:virtofs, fs.smallfiles) > 1":   `did you mean "vm:virtiofs"?`,
		"ratio(box, cpu.prim) > 1":               `did you mean "cpu.prime"?`,
		"ratio(box, cpu.prime, epz) > 1":         `did you mean "eps"?`,
		"ratio(box, fs.randread) > 1":            "name one by its label",
		"change(box, cpu.prime) > 1":             "needs two results",
		"value(host, fs.seqwrite) > 5 ms":        `in "ms", the figure in "MiB/s"`,
		"value(host, fs.seqwrite) > 5 MiB":       `in "MiB"`,
		"ratio(nobody, x) > 1 or ratio(y,z) > 1": `"nobody"`,
	} {
		c, err := Parse(expr)
		if err == nil {
			_, err = c.Eval(figures())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", expr, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("ratio(vm:virtiofs, fs.smallfiles) > 2.0")
	f.Add(`not (slower("a,b", c, 10%) and value(x, y, z) <= 5 MiB/s || !change(a,b)<1e3)`)
	f.Fuzz(func(t *testing.T, expr string) {
		c, err := Parse(expr)
		if err != nil {
			return
		}
		c.Eval(figures())
		// What parses once parses again from its own text.
		if again, err := Parse(c.Expr); err != nil || again.Expr != c.Expr {
			t.Errorf("%q: %v", c.Expr, err)
		}
	})
}
