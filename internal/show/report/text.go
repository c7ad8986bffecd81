package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"tare/internal/sys/proc"
)

// columns measures text as a terminal shows it. Characters of ambiguous width count as narrow, which is right wherever
// the terminal's language is not East Asian, whatever the environment of this process says.
var columns = &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}

func width(s string) int {
	for i := range len(s) {
		if s[i] >= 0x7f || s[i] < ' ' {
			return columns.StringWidth(s)
		}
	}
	return len(s)
}

func padRight(s string, n int) string { return s + strings.Repeat(" ", max(0, n-width(s))) }

func padLeft(s string, n int) string { return strings.Repeat(" ", max(0, n-width(s))) + s }

// maxForeign bounds any text that came from outside, in bytes, before it is wrapped.
const maxForeign = 2000

// clean makes foreign text fit for a line of a terminal: one line, nothing that a terminal obeys, not endless.
func clean(s string) string {
	if len(s) > maxForeign {
		s = strings.ToValidUTF8(s[:maxForeign], "") + "..."
	}
	return proc.Line(s)
}

// wrap breaks text into lines of at most limit columns, the first after prefix and the others after as many spaces. A
// word longer than a line is broken; a figure and its unit are not parted.
func wrap(prefix, text string, limit int) []string {
	indent := strings.Repeat(" ", width(prefix))
	room := max(10, limit-len(indent))
	var lines []string
	line, used := "", 0
	for _, word := range words(text) {
		w := width(word)
		if line != "" && used+1+w <= room {
			line, used = line+" "+word, used+1+w
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for w > room {
			head := headOf(word, room)
			lines = append(lines, head)
			word = word[len(head):]
			w -= width(head)
		}
		line, used = word, w
	}
	if line != "" {
		lines = append(lines, line)
	}
	for i := range lines {
		if i == 0 {
			lines[i] = prefix + lines[i]
			continue
		}
		lines[i] = indent + lines[i]
	}
	return lines
}

// Wrap breaks clean text into lines of at most width columns, as the terminal report does.
func Wrap(prefix, text string, width int) []string { return wrap(prefix, text, width) }

// headOf returns the beginning of a word that fits in room columns, at least one character.
func headOf(word string, room int) string {
	end := 0
	for i, r := range word {
		if next := i + utf8.RuneLen(r); end == 0 || width(word[:next]) <= room {
			end = next
			continue
		}
		break
	}
	return word[:end]
}

// words splits text at spaces, but leaves a figure and its unit together: "0.3 %", "12 ms".
func words(text string) []string {
	var out []string
	for _, w := range strings.Fields(text) {
		if n := len(out); n > 0 && isUnit(w) && out[n-1][len(out[n-1])-1] >= '0' && out[n-1][len(out[n-1])-1] <= '9' {
			out[n-1] += " " + w
			continue
		}
		out = append(out, w)
	}
	return out
}

func isUnit(w string) bool {
	switch strings.TrimRight(w, ".,;:)") {
	case "%", "s", "ms", "µs", "ns", "min", "h", "B", "KiB", "MiB", "GiB", "TiB":
		return true
	}
	return false
}

// RatioText writes a ratio as every form of report does; "?" if it is not a finite number above 0.
func RatioText(v float64) string { return ratioText(v) }

// ratioText writes a ratio with three significant digits, two decimals around one: 0.62, 1.00, 9.81, 14.2, 242. Below
// 0.1 all three digits matter: 0.0512.
func ratioText(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0) || v <= 0:
		return "?"
	case v < 0.0005:
		return strconv.FormatFloat(v, 'e', 2, 64)
	case v < 0.0995:
		return strings.TrimRight(strconv.FormatFloat(v, 'f', 2-int(math.Floor(math.Log10(v))), 64), "0")
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v < 1e7:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'e', 2, 64)
}

// percentText writes a share: 0.003 is "0.3 %".
func percentText(v float64) string {
	p := v * 100
	switch {
	case p >= 99.5:
		return fmt.Sprintf("%.0f %%", p)
	case p >= 9.95:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", p), ".0") + " %"
	}
	s := strconv.FormatFloat(p, 'g', 2, 64)
	if strings.ContainsRune(s, 'e') {
		s = strconv.FormatFloat(p, 'f', 4, 64)
	}
	return s + " %"
}

// durationText writes seconds as people say them: 6 min 40 s, 2 h 5 min, 4.2 s.
func durationText(s float64) string {
	switch {
	case !(s >= 0) || s > 1e9:
		return "?"
	case s < 9.95:
		return fmt.Sprintf("%.1f s", s)
	}
	n := int(math.Round(s))
	switch {
	case n < 60:
		return fmt.Sprintf("%d s", n)
	case n < 3600:
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", n/60, n%60), " 0 s")
	}
	return strings.TrimSuffix(fmt.Sprintf("%d h %d min", n/3600, n%3600/60), " 0 min")
}

// shellWord quotes a path where a shell would take it apart.
func shellWord(s string) string {
	s = clean(s)
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("/._-+:@%=,", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
