package flame

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/run/perf"
	"tare/internal/show/report/chromium"
)

func stack(count int64, names ...string) perf.Stack {
	s := perf.Stack{Count: count}
	for _, n := range names {
		s.Frames = append(s.Frames, perf.Frame{Name: strings.TrimPrefix(n, "k:"), Kernel: strings.HasPrefix(n, "k:"),
			Known: !strings.Contains(n, "[")})
	}
	return s
}

func side(name string, rounds ...[]perf.Stack) Side {
	s := Side{Name: name, Inside: true}
	for _, stacks := range rounds {
		p := &perf.Profile{Stacks: stacks}
		for _, x := range stacks {
			p.Samples += x.Count
		}
		s.Rounds = append(s.Rounds, Round{p, 1000})
	}
	return s
}

func picture() *Picture {
	round := func(lookup int64) []perf.Stack {
		return []perf.Stack{stack(200, "main", "walk", "k:sys_stat", "k:lookup"),
			stack(lookup, "main", "walk", "k:sys_stat", "k:lookup", "k:ovl_lookup<layer>"), stack(100, "main", "sort"),
			stack(5, "main", "walk", "k:tick")}
	}
	return &Picture{Title: `dev.status in box & "host"`, Unit: "path", Base: side("host", round(1), round(2)),
		Side: side("box", round(300), round(280))}
}

// drawn checks that a drawing is well-formed and has nothing from elsewhere, and returns its texts and fills.
func drawn(t *testing.T, p *Picture) (words []string, fills map[string]int) {
	t.Helper()
	var b bytes.Buffer
	if err := SVG(&b, p); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("TARE_ARTIFACTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "flame.svg"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fills = map[string]int{}
	d := xml.NewDecoder(&b)
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return words, fills
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.CharData:
			words = append(words, string(x))
		case xml.StartElement:
			switch x.Name.Local {
			case "svg", "title", "style", "rect", "text", "g":
			default:
				t.Errorf("an element %s", x.Name.Local)
			}
			for _, a := range x.Attr {
				if a.Name.Local == "href" || strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("%s=%q", a.Name.Local, a.Value)
				}
				if a.Name.Local == "fill" {
					fills[a.Value]++
				}
			}
		}
	}
}

func TestSVG(t *testing.T) {
	words, fills := drawn(t, picture())
	all := strings.Join(words, "\n")
	for _, want := range []string{`dev.status in box & "host"`, "box: ", "host: ", "for each path", "+ more time",
		"ovl_lookup<layer> +", "walk", "sort", "in box, "} {
		if !strings.Contains(all, want) {
			t.Errorf("the drawing does not say %q", want)
		}
	}
	// More in box is red there and blue in the host's picture; what did not change in each round is grey.
	if fills[tone(1)] < 2 || fills[grey] < 6 || len(fills) < 3 {
		t.Errorf("fills: %v", fills)
	}
	if strings.Contains(all, "sort +") || strings.Contains(all, "sort -") {
		t.Error("what did not change is marked")
	}
}

func TestNamesThatAreNotKnown(t *testing.T) {
	p := picture()
	for i := range p.Side.Rounds {
		for j := range p.Side.Rounds[i].Profile.Stacks {
			s := &p.Side.Rounds[i].Profile.Stacks[j]
			for k := range s.Frames {
				if !s.Frames[k].Kernel {
					s.Frames[k].Name, s.Frames[k].Known = "[tare-agent]", false
				}
			}
		}
	}
	root, err := p.tree()
	if err != nil || len(root.kids) != 1 || root.kids["programs"] == nil {
		t.Fatalf("%v, %+v", err, root)
	}
	// The kernel's part is compared all the same.
	if n := root.kids["programs"].kids["sys_stat"]; n == nil || n.sum[0] == 0 || n.sum[1] == 0 {
		t.Errorf("%+v", n)
	}
	drawn(t, p)
}

func TestHostileStacks(t *testing.T) {
	hostile := "</title><script>alert(1)</script>\x00\x1b[31m\u202e\xff" + strings.Repeat("long", 200)
	var stacks []perf.Stack
	for i := range 30_000 {
		stacks = append(stacks, stack(1, "main", fmt.Sprint(i, hostile)))
	}
	deep := make([]string, 127)
	for i := range deep {
		deep[i] = fmt.Sprint("f", i)
	}
	stacks = append(stacks, stack(100_000, deep...))
	p := &Picture{Title: hostile, Unit: hostile, Base: side(hostile, stacks), Side: side(hostile, stacks)}
	words, _ := drawn(t, p)
	if len(words) > 20*mostBox {
		t.Errorf("%d texts", len(words))
	}
	for _, w := range words {
		if strings.ContainsAny(w, "\x00\x1b\u202e") {
			t.Fatalf("%q", w)
		}
	}
	empty := picture()
	empty.Base = side("host", nil)
	if err := SVG(io.Discard, empty); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
}

// TestLooks opens the drawing in a browser: it is drawn in both themes, and no text stands out of its box. Pictures are
// kept for people to look at.
func TestLooks(t *testing.T) {
	c := chromium.Start(t)
	var b bytes.Buffer
	if err := SVG(&b, picture()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "flame.svg")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	grounds := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		p := c.Open(file, 1220, 500)
		p.Do("Emulation.setEmulatedMedia",
			map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		p.Until("it is drawn", `document.querySelectorAll("g rect").length > 10`)
		grounds[chromium.Eval[string](p, `getComputedStyle(document.querySelector(".p")).fill`)] = true
		if out := chromium.Eval[string](p, `[...document.querySelectorAll("g")].filter(g => g.querySelector("text")?.getBoundingClientRect().right > g.querySelector("rect").getBoundingClientRect().right + 1).map(g => g.textContent).join("\n")`); out != "" {
			t.Errorf("out of its box: %s", out)
		}
		p.Shoot("flame-"+scheme, false)
		p.Clean()
	}
	if len(grounds) != 2 {
		t.Errorf("both themes have the ground %v", grounds)
	}
}
