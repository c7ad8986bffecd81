package costper

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/verdict"
)

// TestLineAsData holds that the figures of a line follow from its terms, so that a reader of the JSON can do the sum
// again.
func TestLineAsData(t *testing.T) {
	r, p := versus("command", []verdict.Target{machine("bare", 2, 2, 2270), machine("vm", 4, 4, 2670)}, 10, 20)
	table, err := Apply(r, p, Spec{Per: CoreGHz})
	if err != nil {
		t.Fatal(err)
	}
	l := &table.Lines[0]
	if len(l.Terms) != 2 || l.Terms[0].What != "cores" || l.Terms[1].What != "clock" ||
		l.Terms[1].Source != "nominal" || l.Terms[1].Unit != "GHz" {
		t.Fatalf("terms %+v", l.Terms)
	}
	product := 1.0
	for _, x := range l.Terms {
		product *= x.Candidate / x.Baseline
	}
	if math.Abs(product-2*2.67/2.27) > 1e-12 || l.Factor != product ||
		math.Abs(l.Measured.Center*product-l.Ratio) > 1e-12 || l.Ratio == l.Measured.Center {
		t.Errorf("product %g, line %+v", product, l)
	}
	for _, want := range []string{`"per":"core-ghz"`, `"measured":{"center":2,`,
		`"terms":[{"what":"cores","candidate":4,"baseline":2},`, `"notes":[`} {
		if b, err := json.Marshal(table); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s (%v)", want, b, err)
		}
	}
}

// TestHugeFacts holds that no fact of an edited bundle leads out of the numbers that JSON has.
func TestHugeFacts(t *testing.T) {
	r, p := versus("command", []verdict.Target{machine("b", 1, 1, 1), machine("a", 1, 1, 1)}, 10, 20)
	for watts, refused := range map[string]bool{"1e300": true, "1e-300": true, "NaN": true, "1e12": false} {
		given := map[string]map[string]string{"a": {Watts: watts}, "b": {Watts: "1e-12"}}
		table, err := Apply(r, p, Spec{Per: WattHour, Given: given})
		if (err != nil) != refused {
			t.Errorf("%s: %v", watts, err)
		}
		if _, err := json.Marshal(table); err != nil {
			t.Errorf("%s: %v", watts, err)
		}
	}
}

func TestAnswersAsData(t *testing.T) {
	day := Day{time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)}
	a := NewAnswers(WorthSpec{Price: Money{Amount: 140}, UsesPerDay: 10, Hourly: Money{60, "USD"}, From: day.Time},
		[]Worth{{Target: "vm", BreakEvenDay: day}, {Target: "box", Refused: "it saves nothing"}})
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"price":{"amount":140,"currency":"USD"}`, `"from":"2026-11-21"`,
		`"break_even_day":"2026-11-21"`, `"refused":"it saves nothing"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
	if strings.Count(string(b), "day_early") != 0 || strings.Contains(string(b), "0001-01-01") {
		t.Errorf("a day that is none is written: %s", b)
	}
	var back Answers
	if err := json.Unmarshal(b, &back); err != nil || back.From.Format(time.DateOnly) != "2026-11-21" ||
		!back.Answers[1].BreakEvenDay.IsZero() {
		t.Errorf("read back: %+v (%v)", back, err)
	}
}
