package cli

import (
	"bytes"
	"context"
	"strings"
)

// typed runs a command as a user types it, with a standard input, and without a terminal or an environment.
func typed(in string, args ...string) (code int, out, said string) {
	var stdout, stderr bytes.Buffer
	a := &app{console: console{in: strings.NewReader(in), out: &stdout, err: &stderr,
		getenv: func(string) string { return "" }, outFD: -1, errFD: -1}}
	code = a.run(context.Background(), args)
	return code, stdout.String(), stderr.String()
}
