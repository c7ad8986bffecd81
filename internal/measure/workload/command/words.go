package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The values of the parameter shell that are not the name of a shell.
const (
	shellDefault = "default"
	shellNone    = "none"
)

// commandLine turns a command line into the arguments that run it.
func commandLine(shell, line string) ([]string, error) {
	if strings.IndexByte(line, 0) >= 0 {
		return nil, errors.New("a command line cannot contain a zero byte")
	}
	switch shell {
	case shellNone:
		argv, err := splitWords(line)
		if err == nil && len(argv) == 0 {
			err = errors.New("the command line is empty")
		}
		return argv, err
	case shellDefault, "":
		return append(defaultShell(), line), nil
	default:
		argv, err := splitWords(shell)
		if err == nil && len(argv) == 0 {
			err = errors.New("the name of the shell is empty")
		}
		return append(argv, "-c", line), err
	}
}

// splitWords splits a line as a POSIX shell would before any expansion: at blanks, with single quotes, double quotes
// and backslashes. Nothing is expanded.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, fmt.Errorf("the quote ' at byte %d is not closed", i+1)
			}
			word.WriteString(line[i+1 : i+1+end])
			i += end + 1
			inWord = true
		case c == '"':
			n, err := doubleQuoted(&word, line[i+1:])
			if err != nil {
				return nil, fmt.Errorf("the quote \" at byte %d is not closed", i+1)
			}
			i += n
			inWord = true
		case c == '\\':
			if i++; i == len(line) {
				return nil, errors.New("the line ends with a backslash")
			}
			if line[i] != '\n' { // a backslash before a line's end joins the lines
				word.WriteByte(line[i])
				inWord = true
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// doubleQuoted reads up to the closing quote and returns how many bytes that is, the quote included.
func doubleQuoted(word *strings.Builder, s string) (int, error) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0:
			if i++; s[i] != '\n' {
				word.WriteByte(s[i])
			}
		default:
			word.WriteByte(c)
		}
	}
	return 0, errors.New("not closed")
}

// findProgram finds a program as a shell does. A name with a slash is not changed, because it is relative to the
// command's working directory.
func findProgram(name string) (string, error) {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		return name, nil
	}
	path, ok := os.LookupEnv("PATH")
	if !ok {
		path = defaultPath
	}
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			continue
		}
		for _, suffix := range programSuffixes() {
			p := filepath.Join(dir, name+suffix)
			if st, err := os.Stat(p); err == nil && executable(st) {
				return p, nil
			}
		}
	}
	return "", fmt.Errorf("there is no program %q in this environment (PATH is %s)", name, path)
}
