package command

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"tare/internal/sys/benchfmt"
)

// parsePointer reads a JSON pointer of RFC 6901: "" is the whole document, else every token follows a slash, "~1" is a
// slash and "~0" a tilde.
func parsePointer(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' {
		return nil, fmt.Errorf("%q is not a JSON pointer: it must begin with a slash, as in /jobs/0/read/iops", text)
	}
	tokens := strings.Split(text[1:], "/")
	for i, t := range tokens {
		for rest := t; ; {
			_, after, found := strings.Cut(rest, "~")
			if !found {
				break
			}
			if after == "" || after[0] != '0' && after[0] != '1' {
				return nil, fmt.Errorf("%q is not a JSON pointer: write ~0 for a tilde, and ~1 for a slash in a name",
					text)
			}
			rest = after[1:]
		}
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens, nil
}

// lookup follows a pointer's tokens through a decoded document.
func lookup(doc any, path []string) (any, error) {
	for i, token := range path {
		at := "/" + strings.Join(path[:i+1], "/")
		switch v := doc.(type) {
		case map[string]any:
			next, ok := v[token]
			if !ok {
				return nil, fmt.Errorf("the output has nothing at %s", at)
			}
			doc = next
		case []any:
			n, err := arrayIndex(token)
			if err != nil || n >= len(v) {
				return nil, fmt.Errorf("the output has nothing at %s: the list has %d entries", at, len(v))
			}
			doc = v[n]
		default:
			return nil, fmt.Errorf("the output has nothing at %s", at)
		}
	}
	return doc, nil
}

// arrayIndex reads an index as RFC 6901 has it: digits without leading zeros.
func arrayIndex(token string) (int, error) {
	if token == "" || len(token) > 1 && token[0] == '0' || strings.Trim(token, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not an index", token)
	}
	return strconv.Atoi(token)
}

// numberAt returns the number at a pointer in the JSON document that the output holds. A string that contains a number
// counts, because some programs quote their figures.
func numberAt(out []byte, path []string) (float64, error) {
	var doc any
	if err := benchfmt.JSON(out, &doc); err != nil {
		return 0, err
	}
	v, err := lookup(doc, path)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case json.Number:
		return benchfmt.Number(v.String())
	case string:
		return benchfmt.Number(v)
	default:
		return 0, fmt.Errorf("the value at /%s is not a number", strings.Join(path, "/"))
	}
}
