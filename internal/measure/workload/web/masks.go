package web

import (
	"bytes"
	"strings"
)

// The marks that stand for what is left out of a comparison.
const (
	maskTime  = '\x01'
	maskToken = '\x02'
)

// secretNames are the ends of names whose values differ from one response to the next.
var secretNames = []string{"nonce", "token", "csrf", "xsrf", "sessid", "sessionid", "requestid", "reqid", "traceid",
	"etag", "timestamp", "time", "generated"}

// betweenNames are words that may stand between such a name and its value.
var betweenNames = map[string]bool{"value": true, "content": true, "type": true, "hidden": true, "name": true,
	"id":   true,
	"quot": true}

var months = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}

// leaveOut appends a body without what differs from one response to the next on any server: times and dates, how long
// something took, tokens and nonces. In their place are marks, so that what is there or not still shows.
func leaveOut(dst, body []byte) []byte {
	near := 0 // end of the part behind a name in which its value is looked for
	for i := 0; i < len(body); {
		if !isWord(body[i]) {
			dst = append(dst, body[i])
			i++
			continue
		}
		end := i + 1
		for end < len(body) && isWord(body[end]) {
			end++
		}
		word := body[i:end]
		if i < near && !betweenNames[lower(word)] {
			n := i
			for n < len(body) && (isWord(body[n]) || strings.IndexByte("-_.+/=%:", body[n]) >= 0) {
				n++
			}
			near = 0
			if value := body[i:n]; bytes.ContainsAny(value, "0123456789") || len(value) >= 8 {
				dst, i = append(dst, maskToken), n
				continue
			}
		}
		if n := moment(body[i:], word); n > 0 {
			dst, i = append(dst, maskTime), i+n
			continue
		}
		if isToken16(word) {
			dst, i = append(dst, maskToken), end
			continue
		}
		dst, i = append(dst, word...), end
		if secretName(word) {
			near = end + 40
		}
	}
	return dst
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// lower is a short word in lower case.
func lower(word []byte) string {
	if len(word) > 32 {
		return ""
	}
	return strings.ToLower(string(word))
}

func secretName(word []byte) bool {
	if len(word) < 4 || len(word) > 32 || word[0] <= '9' {
		return false
	}
	switch word[len(word)-1] | 0x20 { // most words end here
	case 'e', 'n', 'f', 'd', 'p', 'g':
	default:
		return false
	}
	text := lower(word)
	for _, name := range secretNames {
		if strings.HasSuffix(text, name) {
			return true
		}
	}
	return false
}

// isToken16 tells whether a word is a long number in hexadecimal or some other code: letters among digits.
func isToken16(word []byte) bool {
	if len(word) < 16 {
		return false
	}
	digits := 0
	for _, c := range word {
		if c <= '9' {
			digits++
		}
	}
	return digits >= 3 && digits < len(word)
}

// moment returns the length of a time, a date or a duration that b begins with, 0 if it does not. word is b's first
// word.
func moment(b, word []byte) int {
	if c := word[0]; c > '9' {
		return monthFirst(b, word)
	}
	digits := run(b)
	switch {
	case digits == 4 && like(b, "0000-00-00"), digits == 4 && like(b, "0000/00/00"):
		n := 10
		if len(b) > n && (b[n] == 'T' || b[n] == ' ' || b[n] == 't') {
			if k := ofDay(b[n+1:]); k > 0 {
				return n + 1 + k
			}
		}
		return n
	case digits == 2 && like(b, "00:00"):
		return ofDay(b)
	case digits == len(word) && (digits == 14 && (b[0] == '2' || b[0] == '1') ||
		(digits == 10 || digits == 13) && b[0] == '1'):
		return digits
	case digits <= 2 && len(b) > digits && (b[digits] == ' ' || b[digits] == '-' || b[digits] == '/'):
		if n := month(b[digits+1:]); n > 0 {
			n += digits + 1
			if len(b) > n && (b[n] == ' ' || b[n] == '-' || b[n] == '/') && run(b[n+1:]) == 4 {
				return n + 5
			}
			return n
		}
	}
	return lasted(b)
}

// monthFirst is moment for a word, such as that of November 23, 2026 or Mon, 23 Nov 2026.
func monthFirst(b, word []byte) int {
	if n := month(b); n == len(word) && len(b) > n+1 && b[n] == ' ' {
		if d := run(b[n+1:]); d == 1 || d == 2 {
			n += 1 + d
			if len(b) >= n+6 && b[n] == ',' && b[n+1] == ' ' && run(b[n+2:]) == 4 {
				n += 6
			}
			return n
		}
	}
	if len(word) >= 3 && len(word) <= 9 && len(b) > len(word)+2 && b[len(word)] == ',' && b[len(word)+1] == ' ' {
		switch lower(word[:3]) {
		case "mon", "tue", "wed", "thu", "fri", "sat", "sun":
			rest := b[len(word)+2:]
			end := 0
			for end < len(rest) && isWord(rest[end]) {
				end++
			}
			if end > 0 {
				if n := moment(rest, rest[:end]); n > 0 {
					return len(word) + 2 + n
				}
			}
		}
	}
	return 0
}

// month returns the length of the name of a month, whole or of three letters.
func month(b []byte) int {
	n := 0
	for n < len(b) && b[n]|0x20 >= 'a' && b[n]|0x20 <= 'z' {
		n++
	}
	if n < 3 || n > 9 {
		return 0
	}
	for _, m := range months {
		if lower(b[:3]) == m {
			return n
		}
	}
	return 0
}

// ofDay returns the length of a time of the day, with a fraction and a zone if it has them.
func ofDay(b []byte) int {
	if !like(b, "00:00") {
		return 0
	}
	n := 5
	if like(b[n:], ":00") {
		n += 3
		if n+1 < len(b) && (b[n] == '.' || b[n] == ',') {
			if d := run(b[n+1:]); d > 0 {
				n += 1 + d
			}
		}
	}
	switch {
	case n < len(b) && b[n] == 'Z':
		n++
	case n < len(b) && (like(b[n+1:], "00:00") || like(b[n+1:], "0000")) && (b[n] == '+' || b[n] == '-'):
		n += 5
		if b[n-2] == ':' {
			n++
		}
	}
	return n
}

// lasted returns the length of a duration: a number with a unit of time behind it.
func lasted(b []byte) int {
	n := run(b)
	if n+1 < len(b) && b[n] == '.' {
		if d := run(b[n+1:]); d > 0 {
			n += 1 + d
		}
	}
	at := n
	if at < len(b) && b[at] == ' ' {
		at++
	}
	end := at
	for end < len(b) && isWord(b[end]) {
		end++
	}
	switch lower(b[at:end]) {
	case "s", "ms", "us", "ns", "sec", "secs", "second", "seconds", "msec", "milliseconds", "microseconds":
		return end
	}
	return 0
}

// run counts the digits that b begins with.
func run(b []byte) (n int) {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

// like tells whether b begins like a form, in which 0 stands for any digit.
func like(b []byte, form string) bool {
	if len(b) < len(form) {
		return false
	}
	for i := range len(form) {
		if form[i] == '0' && (b[i] < '0' || b[i] > '9') || form[i] != '0' && b[i] != form[i] {
			return false
		}
	}
	return true
}
