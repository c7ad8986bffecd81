// Package suggest finds the name that was meant by one that was mistyped.
package suggest

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the name closest to what was typed by edit distance, or "" when none is close enough to be meant.
func Nearest(typed string, names []string) string {
	best, bestDist := "", len(typed)/3+2
	if len(typed) < 5 { // with two letters changed, half of a short word is another: yaml is not html
		bestDist = 2
	}
	for _, n := range names {
		d := distance(typed, n)
		// the beginning of one name is as good as one slip
		if len(typed) > 1 && strings.HasPrefix(n, typed) && alone(typed, names) {
			d = min(d, 1)
		}
		if d < bestDist {
			best, bestDist = n, d
		}
	}
	return best
}

// alone tells whether a single name begins so.
func alone(typed string, names []string) bool {
	n := 0
	for _, name := range names {
		if strings.HasPrefix(name, typed) {
			n++
		}
	}
	return n == 1
}

// DidYouMean returns `; did you mean "x"?` or nothing.
func DidYouMean(typed string, names []string) string {
	if n := Nearest(typed, names); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	return ""
}

// MeantOrAll offers the nearest name, as DidYouMean does, or all of them when none is near, as in "; there are: a, b".
func MeantOrAll(typed string, names []string, list string) string {
	if s := DidYouMean(typed, names); s != "" {
		return s
	}
	if len(names) == 0 {
		return ""
	}
	return "; " + list + " " + strings.Join(names, ", ")
}

// RunsOn tells whether a value swallowed the next key: one of these separators and then NAME= with one of the names.
// That is what a list looks like that was written with another list's separator.
func RunsOn(value, separators string, names []string) bool {
	for i, r := range value {
		if !strings.ContainsRune(separators, r) {
			continue
		}
		if key, _, ok := strings.Cut(strings.TrimSpace(value[i+1:]), "="); ok && slices.Contains(names, key) {
			return true
		}
	}
	return false
}

// distance is the optimal string alignment distance: insert, delete, replace, swap of neighbours.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := [3][]int{make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)}
	for j := range rows[0] {
		rows[0][j] = j
	}
	prev2, prev, cur := rows[2], rows[0], rows[1]
	for i := 1; i <= len(x); i++ {
		cur[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(y)]
}
