package qemu

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// maxMessage bounds a message of QEMU's machine protocol, in bytes; the messages that tare requests have a few
// thousand.
const maxMessage = 1 << 20

// qmp is a client of QEMU's machine protocol: lines of JSON, first a greeting, and events between the answers. See
// QEMU's docs/interop/qmp-spec. It serves one caller at a time.
type qmp struct {
	conn   net.Conn
	r      *bufio.Reader
	part   []byte // of a message, whose rest had not come within a limit
	id     int64  // of the last request: an answer that comes after its limit has an older one
	broken error  // once set, nobody knows what the next byte is
}

type qmpMessage struct {
	ID       int64           `json:"id"`
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
	q := &qmp{conn: conn, r: bufio.NewReader(conn)}
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, fmt.Errorf("talk to QEMU: %w", err)
	}
	m, err := q.read()
	if err != nil {
		return nil, fmt.Errorf("read QEMU's greeting: %w", err)
	}
	if m.Greeting == nil {
		return nil, errors.New("read QEMU's greeting: got another message")
	}
	return q, q.execute("qmp_capabilities", limit, nil)
}

// execute runs a command and decodes its result, unless result is nil. Behind the command's name, and a blank, may
// stand its arguments as JSON. After an answer that did not come within the limit the next command can be run.
func (q *qmp) execute(command string, limit time.Duration, result any) error {
	command, arguments, _ := strings.Cut(command, " ")
	if err := q.request(command, arguments, limit, result); err != nil {
		return fmt.Errorf("ask QEMU to %s: %w", command, err)
	}
	return nil
}

func (q *qmp) request(command, arguments string, limit time.Duration, result any) error {
	if q.broken != nil {
		return q.broken
	}
	q.id++
	request := fmt.Sprintf("{\"execute\":%q,\"id\":%d}\n", command, q.id)
	if arguments != "" {
		request = fmt.Sprintf("{\"execute\":%q,\"arguments\":%s,\"id\":%d}\n", command, arguments, q.id)
	}
	if err := q.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if n, err := io.WriteString(q.conn, request); err != nil {
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			q.broken = err // QEMU waits for the rest of it
		}
		return err
	}
	for {
		m, err := q.read()
		switch {
		case err != nil:
			return err
		case m.ID != q.id:
			continue // an event, or the answer to a request that nobody waits for any more
		case m.Error != nil:
			return errors.New(m.Error.Desc)
		case m.Return == nil:
			continue
		case result == nil:
			return nil
		}
		if err := json.Unmarshal(m.Return, result); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		return nil
	}
}

// read reads one message of at most maxMessage bytes. What has come of a message when the time is over is kept for the
// next call; after any other error there is none.
func (q *qmp) read() (m qmpMessage, err error) {
	if q.broken != nil {
		return m, q.broken
	}
	if err = q.readLine(); err != nil {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			q.broken = err
		}
		return m, err
	}
	line := q.part
	q.part = nil
	if err = json.Unmarshal(line, &m); err != nil {
		q.broken = err
	}
	return m, err
}

// readLine adds to part until the line ends.
func (q *qmp) readLine() error {
	for {
		part, err := q.r.ReadSlice('\n')
		if len(q.part)+len(part) > maxMessage {
			return fmt.Errorf("a message has more than %d bytes", maxMessage)
		}
		q.part = append(q.part, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
