package crowd

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare/internal/measure/workload/sql"
	"tare/internal/record"
	"tare/internal/sys/histogram"
	"tare/internal/sys/setdiff"
)

// behind is the metric of replays at the pace of a log.
const behind = "behind_p99"

// paced tells whether the hosts replayed a log at its pace.
func paced(parts []Part) bool {
	_, ok := parts[0].Result.Metrics[behind]
	return ok && parts[0].Units > 0
}

// late tells whether a host was behind the schedule of a log, and not because of the server.
func late(p *Part) bool {
	return !strings.HasPrefix(p.Result.State["behind_because"], "server") &&
		slices.ContainsFunc(p.Result.Warnings, func(w record.Warning) bool { return w.Code == "replay-behind" })
}

// items is the name of the state of a replay that has the number of replayed statements or requests.
func items(p *Part) string {
	if _, ok := p.Result.State["requests"]; ok {
		return "requests"
	}
	return "statements"
}

// count sums the statements that each host sent of divided sessions, and checks that each was sent once in all.
func count(parts []Part) error {
	name, sum := items(&parts[0]), int64(0)
	for i := range parts {
		p := &parts[i]
		if p.Units == 0 {
			return nil
		}
		n, err := strconv.ParseInt(p.Result.State[name], 10, 64)
		if err != nil || n < 1 {
			return failed(Unmerged, "%s did not say how many %s it has replayed", p.Name, name)
		}
		p.Work = n
		sum += n
	}
	for i := range parts {
		p := &parts[i]
		if all := p.Result.State[name+"_of_all"]; all != strconv.FormatInt(sum, 10) {
			return failed(Unequal, "the %d hosts have replayed %d %s together, and by %s there are %s", len(parts), sum,
				name, p.Name, cmp.Or(all, "none"))
		}
	}
	return nil
}

// replayed adds up the figures of hosts that divided the sessions of a log among them: for each fingerprint its figures
// and the evidence of equal work, and the trial's state. histograms are those of the fingerprints, by their IDs.
func replayed(f *record.Figures, parts []Part, histograms map[string]*histogram.Histogram) error {
	if err := addGroups(f, parts, histograms); err != nil {
		return err
	}
	if err := addSketches(f, parts); err != nil {
		return err
	}
	for i := range parts {
		f.Shown = append(f.Shown, parts[i].Result.Shown...)
	}
	slices.SortStableFunc(f.Shown, func(a, b record.Shown) int { return cmp.Compare(a.Number, b.Number) })
	f.Shown = f.Shown[:min(len(f.Shown), record.MostShown)]
	addState(f, parts)
	return nil
}

// addGroups adds up the groups, which are the same in all hosts, because each looked at the whole work.
func addGroups(f *record.Figures, parts []Part, histograms map[string]*histogram.Histogram) error {
	f.Groups = slices.Clone(parts[0].Result.Groups)
	for i := range parts[1:] {
		p := &parts[1+i]
		same := func(a, b record.Group) bool { return a.ID == b.ID }
		if !slices.EqualFunc(f.Groups, p.Result.Groups, same) {
			return failed(Unequal, "%s and %s have different fingerprints: they did not replay the same log",
				parts[0].Name, p.Name)
		}
		for k := range f.Groups {
			g, more := &f.Groups[k], &p.Result.Groups[k]
			g.Count += more.Count
			g.Errors += more.Errors
			g.Rows += more.Rows
			g.Seconds += more.Seconds
			check, err := addChecks(g.Check, more.Check)
			if err != nil {
				return failed(Unmerged, "the evidence of %s for fingerprint %s: %v", p.Name, g.ID, err)
			}
			g.Check = check
		}
	}
	for k := range f.Groups {
		g := &f.Groups[k]
		g.P50, g.P99 = 0, 0
		// Too many of them are not sent: then there is no percentile rather than one of a part.
		if h := histograms[g.ID]; h != nil && h.Count() == uint64(g.Count) {
			g.P50, g.P99 = float64(h.Quantile(0.5))/1e9, float64(h.Quantile(0.99))/1e9
		}
	}
	return nil
}

// addChecks adds up two pieces of evidence of replays, each "12 rows of 3 statements, sum 00000000000000ff" or empty.
func addChecks(a, b string) (string, error) {
	if a == "" || b == "" {
		return a + b, nil
	}
	x, err := parseCheck(a)
	if err != nil {
		return "", err
	}
	y, err := parseCheck(b)
	if err == nil && (x.what != y.what || x.item != y.item) {
		err = fmt.Errorf("%q and %q do not count the same thing", b, a)
	}
	return fmt.Sprintf("%d %s of %d %s, sum %016x", x.rows+y.rows, x.what, x.count+y.count, x.item, x.sum+y.sum), err
}

type evidence struct {
	rows, count, sum uint64
	what, item       string
}

func parseCheck(text string) (e evidence, err error) {
	_, err = fmt.Sscanf(text, "%d %s of %d %s sum %x", &e.rows, &e.what, &e.count, &e.item, &e.sum)
	if e.item = strings.TrimSuffix(e.item, ","); err != nil {
		err = fmt.Errorf("%.80q is no evidence of a replay: %w", text, err)
	}
	return e, err
}

// addSketches merges the sketches of the executions' results. No two hosts have the same execution.
func addSketches(f *record.Figures, parts []Part) error {
	all, some := &setdiff.Sketch{}, false
	for i := range parts {
		p := &parts[i]
		if len(p.Result.Sketch) == 0 {
			continue
		}
		s, err := setdiff.Parse(p.Result.Sketch)
		if err != nil {
			return failed(Unmerged, "%s: %v", p.Name, err)
		}
		all.Merge(s)
		some = true
	}
	if f.SketchMark = parts[0].Result.SketchMark; some {
		f.Sketch = all.Bytes()
	}
	return nil
}

// added are the states of replays that are counts, and summed those that are checksums.
var (
	added  = []string{"statements", "requests", "rows", "bytes", "lanes", "connections_reopened"}
	summed = []string{"sum", "ordered_sum"}
)

// addState makes the states of all hosts together of those that differ. A server's counters are those of the host that
// ended last: each has read them before any of them began, so its difference has the work of all.
func addState(f *record.Figures, parts []Part) {
	last, latest := &parts[0], &parts[0]
	for i := range parts {
		p := &parts[i]
		if end := ended(p); end > ended(last) {
			last = p
		}
		if p.Result.Metrics[behind] > latest.Result.Metrics[behind] {
			latest = p
		}
	}
	for name, v := range last.Result.State {
		if sql.Counts(name) {
			f.State[name] = v
		}
	}
	if why := latest.Result.State["behind_because"]; why != "" {
		f.State["behind_because"] = why + " in " + latest.Name
	}
	for _, name := range added {
		if sum, ok := total(parts, name, 10); ok {
			f.State[name] = strconv.FormatUint(sum, 10)
		}
	}
	for _, name := range summed {
		if sum, ok := total(parts, name, 16); ok {
			f.State[name] = fmt.Sprintf("%016x", sum)
		}
	}
	delete(f.State, items(&parts[0])+"_of_all")
	f.State["errors"] = errorsOf(parts)
}

// ended is the time at which a host had ended, by the controller's monotonic clock, ns.
func ended(p *Part) int64 { return p.span().end }

// total adds up a state of all hosts; false where one of them has no such number.
func total(parts []Part, name string, base int) (sum uint64, ok bool) {
	for i := range parts {
		n, err := strconv.ParseUint(parts[i].Result.State[name], base, 64)
		if err != nil {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// errorsOf adds up the errors of all hosts by code, as a replay lists them: "1146: 3, 1292: 1".
func errorsOf(parts []Part) string {
	counts := map[string]int64{}
	for i := range parts {
		for entry := range strings.SplitSeq(parts[i].Result.State["errors"], ", ") {
			if at := strings.LastIndex(entry, ": "); at > 0 {
				n, _ := strconv.ParseInt(entry[at+len(": "):], 10, 64)
				counts[entry[:at]] += n
			}
		}
	}
	var all []string
	for code, n := range counts {
		all = append(all, fmt.Sprintf("%s: %d", code, n))
	}
	if slices.Sort(all); all == nil {
		return "none"
	}
	return strings.Join(all, ", ")
}
