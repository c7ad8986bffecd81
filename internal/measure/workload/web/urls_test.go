package web

import (
	"math"
	"strings"
	"testing"
)

func TestLists(t *testing.T) {
	list, server, err := parseList("# pages\n3 http://shop/a?b=c  /x # and\n 1 HTTP://SHOP/%20y\n", "")
	if err != nil || server != "http://shop" || len(list) != 3 || list[0] != (listed{"/a?b=c", 3}) ||
		list[1] != (listed{"/x", 1}) || list[2] != (listed{"/%20y", 1}) {
		t.Errorf("%v on %s, %v", list, server, err)
	}
	order := shuffled(list, 7)
	count := map[uint16]int{}
	for _, i := range order {
		count[i]++
	}
	if len(order) != 5 || count[0] != 3 || count[1] != 1 || count[2] != 1 {
		t.Errorf("the order is %v", order)
	}
	if again := shuffled(list, 7); string(rune(again[0])) != string(rune(order[0])) {
		t.Errorf("another order for the same seed: %v and %v", order, again)
	}
	for _, bad := range []string{"", "#", "5", "/a", "3 4 /a", "0 /a", "1001 /a", "x", "http://a/ http://b/",
		"http:///a",
		strings.Repeat("/a ", maxURLs+1), strings.Repeat("#", maxList+1)} {
		if _, _, err := parseList(bad, ""); err == nil {
			t.Errorf("%.40q is taken", bad)
		}
	}
}

// FuzzList: a list is read within its bounds, and what it gives can be sent.
func FuzzList(f *testing.F) {
	f.Add("3 http://shop/a /b\n# c", "")
	f.Add("/a 2 /b", "http://192.0.2.1:81")
	f.Fuzz(func(t *testing.T, text, base string) {
		list, server, err := parseList(text, base)
		if err != nil {
			return
		}
		if len(list) == 0 || len(list) > maxURLs || server == "" {
			t.Fatalf("%q: %v on %q", text, list, server)
		}
		for _, p := range list {
			if p.weight < 1 || p.weight > maxWeight || strings.ContainsAny(p.path, " \r\n") || p.path == "" {
				t.Fatalf("%q: %q with the weight %d", text, p.path, p.weight)
			}
		}
	})
}

// FuzzNumbers: rates and ranges of lengths are within their bounds.
func FuzzNumbers(f *testing.F) {
	f.Add("5-7")
	f.Add("1e3")
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := parseRate(text); err == nil && r != 0 && !(r >= minRate && r <= maxRate) {
			t.Fatalf("the rate %q is %v", text, r)
		}
		if s, err := parseSpan(text); err == nil && (s.least < 0 || s.most < s.least || s.most > maxBody) {
			t.Fatalf("the range %q is %v", text, s)
		}
	})
}

// TestArrivals: several lanes have one schedule together; a constant one has equal distances, a random one their mean.
func TestArrivals(t *testing.T) {
	const lanes, rate, n = 3, 1000.0, 30000
	due := map[int64]bool{}
	for lane := range lanes {
		a := newArrivals(rate, false, lane, lanes, 1)
		for range n / lanes {
			due[int64(math.Round(float64(a.next())/1e6))] = true
		}
	}
	for i := range int64(n) {
		if !due[i+1] {
			t.Fatalf("no request is due at %d ms", i+1)
		}
	}
	last := int64(0)
	for lane := range lanes {
		a := newArrivals(rate, true, lane, lanes, 1)
		before := int64(0)
		for range n / lanes {
			at := a.next()
			if at < before {
				t.Fatalf("due at %d after %d", at, before)
			}
			before = at
		}
		last = max(last, before)
	}
	if s := float64(last) / 1e9; s < 0.9*n/rate || s > 1.1*n/rate {
		t.Errorf("%d requests at random at %v per second take %v s", n, rate, s)
	}
}
