package qemu

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// maxMessage bounds a message of QEMU's machine protocol, in bytes; the messages that tare requests have a few
// thousand.
const maxMessage = 1 << 20

// qmp is a client of QEMU's machine protocol: lines of JSON, first a greeting, and events between the answers. See
// QEMU's docs/interop/qmp-spec. It serves one caller at a time.
type qmp struct {
	conn net.Conn
	r    *bufio.Reader
}

type qmpMessage struct {
	Greeting json.RawMessage `json:"QMP"`
	Return   json.RawMessage `json:"return"`
	Event    string          `json:"event"`
	Error    *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
}

// newQMP waits for the greeting and negotiates no extensions.
func newQMP(conn net.Conn, limit time.Duration) (*qmp, error) {
	q := &qmp{conn, bufio.NewReader(conn)}
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, fmt.Errorf("talk to QEMU: %w", err)
	}
	m, err := readQMP(q.r)
	if err != nil {
		return nil, fmt.Errorf("read QEMU's greeting: %w", err)
	}
	if m.Greeting == nil {
		return nil, errors.New("read QEMU's greeting: got another message")
	}
	return q, q.execute("qmp_capabilities", limit, nil)
}

// execute runs a command and decodes its result, unless result is nil. Behind the command's name, and a blank, may
// stand its arguments as JSON.
func (q *qmp) execute(command string, limit time.Duration, result any) error {
	command, arguments, _ := strings.Cut(command, " ")
	request := fmt.Sprintf("{\"execute\":%q}\n", command)
	if arguments != "" {
		request = fmt.Sprintf("{\"execute\":%q,\"arguments\":%s}\n", command, arguments)
	}
	if err := q.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return fmt.Errorf("ask QEMU to %s: %w", command, err)
	}
	if _, err := io.WriteString(q.conn, request); err != nil {
		return fmt.Errorf("ask QEMU to %s: %w", command, err)
	}
	for {
		m, err := readQMP(q.r)
		switch {
		case err != nil:
			return fmt.Errorf("ask QEMU to %s: %w", command, err)
		case m.Error != nil:
			return fmt.Errorf("ask QEMU to %s: %s", command, m.Error.Desc)
		case m.Return == nil:
			continue // an event
		case result == nil:
			return nil
		}
		if err := json.Unmarshal(m.Return, result); err != nil {
			return fmt.Errorf("ask QEMU to %s: read answer: %w", command, err)
		}
		return nil
	}
}

// readQMP reads one message of at most maxMessage bytes.
func readQMP(r *bufio.Reader) (m qmpMessage, err error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			return m, fmt.Errorf("a message has more than %d bytes", maxMessage)
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return m, err
		}
	}
	return m, json.Unmarshal(line, &m)
}
