package verdict

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/record"
)

// partText names a part. The remainder has what is not measured, too.
func (cm *cellMaker) partText(w *Why, name string) string {
	if cm.opened.emulated(w.Target) {
		switch name {
		case record.UserNS:
			return "emulation of user code"
		case record.KernelNS:
			return "emulation of the kernel"
		}
	}
	switch name {
	case record.UserNS:
		return "user code"
	case record.KernelNS:
		return "kernel"
	case record.ReadyNS:
		return "waiting for a processor"
	case record.DiskNS:
		return "waiting for a disk"
	}
	limit := ""
	if a, b := cm.opened.limit(w.Target), cm.opened.limit(w.Baseline); a != b {
		limit = cmp.Or(a, b)
	}
	switch noReady, noDisk := w.Unmeasured[record.ReadyNS] != "", w.Unmeasured[record.DiskNS] != ""; {
	case noReady && limit != "":
		return "waiting for a processor, by a limit of " + limit + ", or something else"
	case noReady && noDisk:
		return "waiting"
	case noReady:
		return "waiting for a processor or something else"
	case noDisk:
		return "waiting for a disk or something else"
	}
	return "waiting for something else"
}

// Digits is the number of digits behind the point in the texts of the ratio and its parts.
func (w *Why) Digits() int {
	switch {
	case w.Ratio < 0.0995:
		return 4
	case w.Ratio < 9.995:
		return 2
	case w.Ratio < 99.95:
		return 1
	}
	return 0
}

// Rounded are the parts of the candidate as they are told: rounded so that they add up to the rounded ratio.
func (w *Why) Rounded() []float64 {
	all := make([]float64, len(w.Parts))
	for i, p := range w.Parts {
		all[i] = p.Candidate
	}
	return adding(all, w.Ratio, math.Pow10(w.Digits()))
}

// adding rounds values to whole parts of 1/scale so that they add up to their rounded sum.
func adding(values []float64, sum, scale float64) []float64 {
	out, order := make([]float64, len(values)), make([]int, len(values))
	left := math.Round(sum * scale)
	for i, v := range values {
		out[i], order[i] = math.Floor(v*scale), i
		left -= out[i]
	}
	rest := func(i int) float64 { return values[i]*scale - out[i] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest(b), rest(a)) })
	for _, i := range order {
		if left < 1 {
			break
		}
		out[i]++
		left--
	}
	for i := range out {
		out[i] /= scale
	}
	return out
}

// notShown names what the parts add together that are not shown to differ.
const notShown = "parts not shown to differ"

// because makes the sum of Because.
func (w *Why) because() string {
	whats, values, left := []string{}, []float64{}, w.Ratio-1
	parts := slices.DeleteFunc(slices.Clone(w.Parts), func(p Part) bool { return !p.Shown })
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(math.Abs(b.Extra), math.Abs(a.Extra)) })
	for _, p := range parts {
		whats, values, left = append(whats, p.What), append(values, p.Extra), left-p.Extra
	}
	whats, values = append(whats, notShown), append(values, left)
	scale := math.Pow10(w.Digits())
	// 1 and the ratio are rounded each, so the sum is what is between them.
	told := adding(values, math.Round(w.Ratio*scale)/scale-1, scale)
	text := func(v float64) string { return strconv.FormatFloat(math.Abs(v), 'f', w.Digits(), 64) }
	sum, named := text(w.Ratio)+" = 1", false
	for i, v := range told {
		if text(v) == text(0) {
			continue
		}
		sign := " + "
		if v < 0 {
			sign = " - "
		}
		sum += sign + text(v) + " " + whats[i]
		named = named || i < len(parts)
	}
	if !named {
		return ""
	}
	return sum
}

// Signed is a difference as it is told.
func (w *Why) Signed(v float64) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', w.Digits(), 64)
	switch {
	case strings.Trim(s, "0.") == "":
		return s
	case v < 0:
		return "-" + s
	}
	return "+" + s
}

// sentence says the sum, and which parts are shown to differ, the largest first.
func (w *Why) sentence() string {
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', w.Digits(), 64) }
	var sum []string
	for i, v := range w.Rounded() {
		if v > 0 {
			sum = append(sum, text(v)+" "+w.Parts[i].What)
		}
	}
	s := text(w.Ratio) + " = " + strings.Join(sum, " + ")
	shown := slices.DeleteFunc(slices.Clone(w.Parts), func(p Part) bool {
		return !p.Shown || strings.Trim(w.Signed(p.Extra), "+-0.") == ""
	})
	slices.SortStableFunc(shown, func(a, b Part) int {
		return cmp.Compare(math.Abs(b.Extra), math.Abs(a.Extra))
	})
	if len(shown) == 0 {
		return s + "; no part is shown to differ from " + w.Baseline
	}
	var parts []string
	for _, p := range shown {
		parts = append(parts, w.Signed(p.Extra)+" "+p.What+" ["+w.Signed(p.Low)+", "+w.Signed(p.High)+"]")
	}
	return s + "; shown against " + w.Baseline + ": " + strings.Join(parts, ", ")
}
