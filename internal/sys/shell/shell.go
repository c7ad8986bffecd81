// Package shell quotes words for a POSIX shell at the far end of a connection, and splits a line into words without
// one.
package shell

import (
	"errors"
	"fmt"
	"strings"
)

// Quote returns a command line that a POSIX shell splits into exactly these words, expanding nothing. The same holds
// for csh and fish as long as no word contains a backslash, an exclamation mark or a newline. A NUL byte, which is not
// possible in an argument, is dropped.
func Quote(words ...string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		quoteWord(&b, w)
	}
	return b.String()
}

func quoteWord(b *strings.Builder, w string) {
	if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,-") == "" {
		b.WriteString(w)
		return
	}
	b.WriteByte('\'')
	b.WriteString(strings.NewReplacer("'", `'\''`, "\x00", "").Replace(w))
	b.WriteByte('\'')
}

// MaxLine bounds what Split reads, in bytes.
const MaxLine = 64 << 10

// Split splits a line into words as a POSIX shell does: blanks separate, '...' is literal, in "..." a backslash escapes
// only $ ` " \ and newline, elsewhere it escapes any character. Nothing is expanded; special characters ($, `, *, ~, a
// redirection) are literal, so that a line means the same on every system.
func Split(line string) ([]string, error) {
	if len(line) > MaxLine {
		return nil, fmt.Errorf("the command line is longer than %d bytes", MaxLine)
	}
	s := splitter{in: line}
	for s.pos < len(s.in) {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	s.end()
	return s.words, nil
}

type splitter struct {
	in     string
	pos    int
	word   strings.Builder
	inWord bool // an empty pair of quotes is a word, too
	words  []string
}

func (s *splitter) end() {
	if s.inWord {
		s.words = append(s.words, s.word.String())
		s.word.Reset()
		s.inWord = false
	}
}

// step reads one blank, character or quoted part.
func (s *splitter) step() error {
	c := s.in[s.pos]
	s.pos++
	switch c {
	case ' ', '\t', '\n':
		s.end()
		return nil
	case '\'':
		return s.single()
	case '"':
		return s.double()
	case '\\':
		if s.pos == len(s.in) {
			return errors.New("the command line ends with a backslash")
		}
		if c = s.in[s.pos]; c != '\n' {
			s.word.WriteByte(c)
			s.inWord = true
		}
		s.pos++
		return nil
	default:
		s.word.WriteByte(c)
		s.inWord = true
		return nil
	}
}

func (s *splitter) single() error {
	n := strings.IndexByte(s.in[s.pos:], '\'')
	if n < 0 {
		return errors.New("the command line has an unclosed quote (')")
	}
	s.word.WriteString(s.in[s.pos : s.pos+n])
	s.inWord = true
	s.pos += n + 1
	return nil
}

func (s *splitter) double() error {
	s.inWord = true
	for s.pos < len(s.in) {
		c := s.in[s.pos]
		s.pos++
		if c == '"' {
			return nil
		}
		if c == '\\' && s.pos < len(s.in) && strings.IndexByte("$`\"\\\n", s.in[s.pos]) >= 0 {
			if c = s.in[s.pos]; c == '\n' {
				s.pos++
				continue
			}
			s.pos++
		}
		s.word.WriteByte(c)
	}
	return errors.New(`the command line has an unclosed quote (")`)
}
