package costper

import (
	"bytes"
	"strings"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

func TestTableText(t *testing.T) {
	r, p := versus("command", []verdict.Target{bare, vmE7, vmE5}, tBare, tVME7, tVME5)
	r.Cells[1].Verdict = record.Failed
	table, err := Apply(r, p, perCores)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := table.WriteText(&out, func(s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	const want = `Costs per core-GHz
  vm-e7 replay against bare: 1.509 [1.501, 1.517] x (4 cores x 2.67 GHz) / (4 cores x 2.27 GHz) = 1.775 [1.766, 1.784], clocks nominal
      its 11654 s would be 13708 s with the cores and clock of bare
  vm-e5 replay against bare: not restated: there is no ratio (FAILED)
  Note: the clock rates are nominal, as each system reports them; the real rates were not measured.
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", &out, want)
	}
}

func TestEveryPerHasItsWords(t *testing.T) {
	for _, p := range Pers() {
		if perWords[p] == "" || likeWords[p] == "" {
			t.Errorf("%s has no words", p)
		}
	}
}

// TestForeignNamesAreCleaned holds that nothing foreign reaches the page past clean.
func TestForeignNamesAreCleaned(t *testing.T) {
	evil := "x\x1b[2Jy"
	host, vm := machine("host", 1, 1, 1000), machine(evil, 1, 1, 1000)
	host.Outside.Extra = map[string]string{PricePerHour: "1", Currency: evil}
	vm.Outside.Extra = map[string]string{PricePerHour: "2", Currency: evil}
	r, p := versus("command", []verdict.Target{host, vm}, 10, 5)
	p.Workloads[0].Label, r.Cells[0].Workload = evil, evil
	clean := func(s string) string { return strings.ReplaceAll(s, "\x1b", "?") }
	var out bytes.Buffer
	for _, per := range []Per{CoreGHz, Price} {
		table, err := Apply(r, p, Spec{Per: per})
		if err != nil {
			t.Fatal(err)
		}
		if err := table.WriteText(&out, clean); err != nil {
			t.Fatal(err)
		}
	}
	answers, err := Ask(r, p, theStudy())
	if err != nil {
		t.Fatal(err)
	}
	if err := answers[0].WriteText(&out, theStudy(), evil, clean); err != nil {
		t.Fatal(err)
	}
	refused := Worth{Target: evil, Refused: evil}
	if err := refused.WriteText(&out, theStudy(), evil, clean); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "\x1b") || strings.Count(out.String(), "x?[2Jy") < 8 {
		t.Errorf("%q", out.String())
	}
}
