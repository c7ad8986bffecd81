package postgres

import (
	"bytes"
	"errors"
	"fmt"
)

// Error is an error or a notice that the server reports (PostgreSQL documentation, "Error and Notice Message Fields").
type Error struct {
	Severity string // "ERROR", "FATAL", "PANIC", "WARNING", "NOTICE", "LOG"; in English, whatever the server's language
	Code     string // SQLSTATE, five characters
	Message  string
	Detail   string
	Hint     string
	Where    string
	Position string // of the error in the statement, in characters from 1
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s %s: %s", e.Severity, e.Code, e.Message)
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	if e.Where != "" {
		s += ", " + e.Where
	}
	return s
}

// Fatal tells whether the server ends the connection with it.
func (e *Error) Fatal() bool { return e.Severity == "FATAL" || e.Severity == "PANIC" }

// errProtocol is an answer that no server gives.
var errProtocol = errors.New("the server does not keep to the protocol")

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errProtocol, fmt.Sprintf(format, args...))
}

// parseError reads the fields of an error or a notice. A body that was cut short gives the fields that are there.
func parseError(body []byte) *Error {
	e := &Error{}
	for len(body) > 1 && body[0] != 0 {
		value, rest, _ := bytes.Cut(body[1:], []byte{0})
		switch body[0] {
		case 'S':
			if e.Severity == "" {
				e.Severity = string(value)
			}
		case 'V': // as S, never translated; since 9.6
			e.Severity = string(value)
		case 'C':
			e.Code = string(value)
		case 'M':
			e.Message = string(value)
		case 'D':
			e.Detail = string(value)
		case 'H':
			e.Hint = string(value)
		case 'W':
			e.Where = string(value)
		case 'P':
			e.Position = string(value)
		}
		body = rest
	}
	return e
}
