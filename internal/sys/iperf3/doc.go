// Package iperf3 speaks the protocol of iperf3 as its client; package serve in it is a server. Both work with stock
// iperf3 3.x at the other end, so that this may be a device that has nothing else.
//
// It is opinionated: a test moves an amount, not for a time, and a transfer over TCP ends when the receiver's kernel
// has every byte. Everything that the other end says is bounded in length and in time.
//
// The protocol: on a control connection the client sends a cookie; then the server sends states of one byte. At
// paramExchange the client sends its parameters, at createStreams it makes the data connections, each of which begins
// with the cookie (over UDP with a datagram that the server answers). After testRunning data flows until the client
// sends testEnd; at exchangeResults each side sends its results. Messages are JSON after four bytes of length, most
// significant first.
package iperf3

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"tare/internal/sys/sock"
)

// The states, each a byte on the control connection.
const (
	TestStart       = 1
	TestRunning     = 2
	TestEnd         = 4
	ParamExchange   = 9
	CreateStreams   = 10
	ServerTerminate = 11
	ClientTerminate = 12
	ExchangeResults = 13
	DisplayResults  = 14
	Done            = 16
	AccessDenied    = 0xff // -1
	ServerError     = 0xfe // -2
)

// CookieSize is the length of a cookie: 36 characters and a zero.
const CookieSize = 37

// Port is where iperf3 -s listens unless it is told otherwise.
const Port = 5201

// Greeting and Answer are the first datagrams of a stream over UDP. Versions before 3.12 answer differently, and no end
// looks at the other's content.
const (
	Greeting  = 0x36373839
	Answer    = 0x39383736
	OldAnswer = 987654321
)

// Params are the parameters of a test, which the client sends. Numbers are floats because some versions write large
// ones with an exponent.
type Params struct {
	TCP           bool    `json:"tcp,omitempty"`
	UDP           bool    `json:"udp,omitempty"`
	SCTP          bool    `json:"sctp,omitempty"`
	Omit          float64 `json:"omit"`
	Time          float64 `json:"time"` // s
	Bytes         float64 `json:"num"`
	Blocks        float64 `json:"blockcount"`
	MSS           float64 `json:"MSS,omitempty"`
	NoDelay       bool    `json:"nodelay,omitempty"`
	Streams       float64 `json:"parallel"`
	Reverse       bool    `json:"reverse,omitempty"`
	Bidirectional bool    `json:"bidirectional,omitempty"`
	Window        float64 `json:"window,omitempty"`
	Block         float64 `json:"len"`
	Rate          float64 `json:"bandwidth,omitempty"` // bit/s of each stream
	PacingTimer   float64 `json:"pacing_timer,omitempty"`
	Counters64    float64 `json:"udp_counters_64bit,omitempty"`
	WantsOutput   float64 `json:"get_server_output,omitempty"`
	Token         string  `json:"authtoken,omitempty"`
	Version       string  `json:"client_version,omitempty"`
}

// Results are the counts of one end, which it sends to the other.
type Results struct {
	CPU         float64  `json:"cpu_util_total"` // % of one processor
	User        float64  `json:"cpu_util_user"`
	System      float64  `json:"cpu_util_system"`
	Retransmits float64  `json:"sender_has_retransmits"` // 1: the streams' figure is valid; below 0 or huge: it is not
	Congestion  string   `json:"congestion_used,omitempty"`
	Streams     []Stream `json:"streams"`
}

// Stream is a part of Results.
type Stream struct {
	ID          int     `json:"id"`
	Bytes       float64 `json:"bytes"`
	Retransmits float64 `json:"retransmits"` // -1: not known
	Jitter      float64 `json:"jitter"`      // s
	Errors      float64 `json:"errors"`      // packets lost
	Packets     float64 `json:"packets"`     // the highest number of one
	Start       float64 `json:"start_time"`
	End         float64 `json:"end_time"` // s since the start
}

// StreamID is the name of the i-th stream, from 0. There is no 2.
func StreamID(i int) int {
	if i == 0 {
		return 1
	}
	return i + 2
}

// MaxMessage bounds a message of JSON. Results have about 150 bytes for each stream.
const MaxMessage = 1 << 20

// Pack is a message as it is sent.
func Pack(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...), nil
}

// Unpack reads a message.
func Unpack(from io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > MaxMessage {
		return fmt.Errorf("%w: a message of %d bytes", errGarbage, n)
	}
	// The buffer grows with the bytes that come, not with the length that is announced.
	text, err := io.ReadAll(io.LimitReader(from, int64(n)))
	if err != nil {
		return err
	}
	if len(text) < int(n) {
		return io.ErrUnexpectedEOF
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%w: %.60q is not the message that is due here: %w", errGarbage, text, err)
	}
	return nil
}

var errGarbage = errors.New("it does not speak iperf3's protocol")

// Header is the length of the counters at the start of a datagram.
func Header(wide bool) int {
	if wide {
		return 16
	}
	return 12
}

// PutHeader writes the number of a datagram, from 1, and when it left.
func PutHeader(b []byte, wide bool, number int64, left time.Duration) {
	binary.BigEndian.PutUint32(b, uint32(left/time.Second))
	binary.BigEndian.PutUint32(b[4:], uint32(left%time.Second/time.Microsecond))
	if wide {
		binary.BigEndian.PutUint64(b[8:], uint64(number))
	} else {
		binary.BigEndian.PutUint32(b[8:], uint32(number))
	}
}

// ParseHeader reads a header that PutHeader wrote. ok is false for a datagram of no test.
func ParseHeader(b []byte, wide bool) (number int64, left time.Duration, ok bool) {
	if len(b) < Header(wide) {
		return 0, 0, false
	}
	left = time.Duration(binary.BigEndian.Uint32(b))*time.Second +
		time.Duration(binary.BigEndian.Uint32(b[4:]))*time.Microsecond
	if wide {
		number = int64(binary.BigEndian.Uint64(b[8:]))
	} else {
		number = int64(binary.BigEndian.Uint32(b[8:]))
	}
	return number, left, number >= 1 && number < 1<<62
}

// Account is a receiver's part of a stream over UDP as iperf3 counts it.
func Account(a *sock.Arrivals) (packets, errors float64) {
	return float64(a.Next), float64(a.Lost(a.Next))
}

// serverErrors are the numbers that a server gives as its reason, as far as more is known than to look there.
var serverErrors = map[uint32]string{
	142: "it asks for a user's name and password (--authorized-users-path), which tare does not have: start it without",
}
