package flame

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"tare/internal/record"
	"tare/internal/run/perf"
)

func TestGraph(t *testing.T) {
	f, err := Graph(picture())
	if err != nil {
		t.Fatal(err)
	}
	if f.Target != "box" || f.Baseline != "host" || f.Unit != "path" || f.Rounds != 2 || !f.Inside || f.LeftOut != 0 {
		t.Errorf("%+v", f)
	}
	at := map[string]record.FlameFrame{}
	for _, x := range f.Frames {
		at[x.Name] = x
	}
	all, more, sort := at["all"], at["ovl_lookup<layer>"], at["sort"]
	if all.Depth != 0 || all.Shown || more.Depth != 5 || !more.Kernel || !more.Shown || more.NS <= more.BaseNS ||
		sort.Shown || math.Abs(sort.NS-sort.BaseNS) > 1e-9 {
		t.Errorf("all %+v, more %+v, as much %+v", all, more, sort)
	}
	empty := picture()
	empty.Base = side("host", nil)
	if _, err := Graph(empty); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
}

// TestGraphIsBounded: of more functions than a page can draw the widest stay, with all that call them, and what is left
// out is told.
func TestGraphIsBounded(t *testing.T) {
	hostile := "\xff\u202e\x1b[2J" + strings.Repeat("lång", 100)
	var stacks []perf.Stack
	for i := range 3 * record.MostFlameFrames {
		stacks = append(stacks, stack(int64(1+i%3), "main", fmt.Sprint("f", i%2500), fmt.Sprint(i, hostile)))
	}
	deep := make([]string, 127)
	for i := range deep {
		deep[i] = fmt.Sprint("deep", i)
	}
	stacks = append(stacks, stack(50, deep...))
	f, err := Graph(&Picture{Unit: "x", Base: side("a", stacks), Side: side("b", stacks)})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Frames) != record.MostFlameFrames || f.LeftOut < 1000 || !(f.LeftOutNS > 0) {
		t.Errorf("%d functions, %d left out that take up to %v ns", len(f.Frames), f.LeftOut, f.LeftOutNS)
	}
	for _, x := range f.Frames {
		if !utf8.ValidString(x.Name) || strings.ContainsAny(x.Name, "\u202e\x1b") {
			t.Fatalf("%q", x.Name)
		}
		if max(x.NS, x.BaseNS) < f.LeftOutNS {
			t.Fatalf("%+v stays, and wider ones are left out (%v ns)", x, f.LeftOutNS)
		}
	}
}
