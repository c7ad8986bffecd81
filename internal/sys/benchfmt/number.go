package benchfmt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Number reads a finite number in decimal or exponential form.
func Number(s string) (float64, error) {
	s = strings.TrimSpace(s)
	if len(s) > 64 {
		return 0, errors.New("the matched text is too long for a number")
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return v, nil
}

// JSON reads the document in a program's output: all of it, or the part from the first line that opens an object or
// list, because some programs print notes first. Text after the document is ignored. Numbers in an any are of type
// json.Number.
func JSON(out []byte, into any) error {
	const tries = 8 // a list may be a note in brackets; hostile output must not make this quadratic
	for at, tried := 0, 0; at < len(out) && tried < tries; {
		line := bytes.TrimLeft(out[at:], " \t\r\n")
		at = len(out) - len(line)
		if len(line) > 0 && (line[0] == '{' || line[0] == '[') {
			d := json.NewDecoder(bytes.NewReader(line))
			d.UseNumber()
			err := d.Decode(into)
			if err == nil {
				return nil
			}
			if tried++; line[0] == '{' {
				return fmt.Errorf("the output is not JSON: %w", err)
			}
		}
		end := bytes.IndexByte(line, '\n')
		if end < 0 {
			break
		}
		at += end + 1
	}
	return errors.New("the output contains no JSON document")
}
