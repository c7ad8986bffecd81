// Package netpeer is the other end of tare's network workloads: one process on the controller's machine for each run
// that needs it, or in an environment that a workload names, and the connections to it.
//
// It is opinionated about access. It listens only on the loopback and where a run's environments need it (Place), and
// serves only connections that begin with the run's
// token. It gets the token on its standard input; the token is neither in its arguments nor in a log. It ends with its
// input, so that it does not outlive a killed controller.
//
// A connection begins with a greeting of fixed length (Hello) that says what it is for; the peer answers one byte. Then
// the client asks, each time with eight bytes, little-endian, that say how much:
//
//	up     the client sends so many bytes; the peer answers a receipt when it has them all
//	down   the peer sends so many bytes and a receipt
//	echo   so many times the client sends a message and the peer sends it back
//	usage  the peer tells what it has used so far; the number means nothing
//	page   so many bytes, of a seed that follows, are to be served as a web page; the peer tells where they are
//	datagrams  so many datagrams in a direction; the side that receives them tells the other what came (Flow)
//	touch  nothing is asked: that the connection was made is the work
//	gather so many bytes up, and, in eight bytes more, so many down, on connections for up and down that one thread
//	       serves: they follow the greeting of this one, with the cookie that the peer sends; it answers receipts
//
// The client closes first. The peer then resets the connection instead of closing it, so that neither end keeps it in
// TIME_WAIT and a run does not use up the machine's ports.
package netpeer

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"time"

	"tare/internal/sys/sock"
)

// Role is the first argument of an executable in the role of the peer.
const Role = "peer"

// Op is the purpose of a connection.
type Op uint8

// The operations; see the package comment.
const (
	Up Op = iota + 1
	Down
	Echo
	Usage
	Touch
	Page
	Datagrams
	Gather
)

// Bounds of Hello.Size: of a block that is sent or received at a time, of a message, and of a datagram.
const (
	MaxBlock   = 4 << 20
	MaxMessage = 1 << 20

	MinDatagram, MaxDatagram = 16, 65507
)

// cpus is Go's default number of processors when the process began.
var cpus = runtime.GOMAXPROCS(0)

// CPUs is the number of processors that this process may use.
func CPUs() int { return cpus }

// OS lists the systems (GOOS) on which the peer and its clients work.
func OS() []string { return []string{"linux", "darwin", "freebsd", "windows"} }

// maxAmount bounds one request.
const maxAmount = 1 << 50

// Deadlines. That of a transfer bounds the time without any progress: a machine that is stopped for a while is a
// measurement, not an error.
const (
	greetTime   = 10 * time.Second
	connectTime = 10 * time.Second
	nearTime    = 2 * time.Second // for each address of a peer that is looked for
	stallTime   = time.Minute
	askTime     = 10 * time.Minute // between two requests
)

// Token gives access to the peer: each connection begins with it.
type Token [32]byte

// NewToken returns a token that nobody can guess.
func NewToken() (t Token) {
	rand.Read(t[:])
	return t
}

// Text is the token as it is sent to the peer and to agents. It must not be shown.
func (t Token) Text() string { return hex.EncodeToString(t[:]) }

// ParseToken parses the result of Text. The error does not contain the token.
func ParseToken(s string) (t Token, err error) {
	if b, err := hex.DecodeString(s); err == nil && len(b) == len(t) {
		return Token(b), nil
	}
	return t, fmt.Errorf("the peer's token is not %d hexadecimal digits", 2*len(t))
}

// Place is an address at which the peer listens besides the loopback.
type Place struct {
	Address netip.Addr // of the machine, or of the namespace
	Space   string     // the file of a network namespace, such as /proc/123/ns/net; "" is the machine's own
}

// Text is the place as the peer is told it.
func (p Place) Text() string { return strings.TrimSpace(p.Address.String() + " " + p.Space) }

func parsePlace(text string) (p Place, err error) {
	address, space, _ := strings.Cut(text, " ")
	if p.Address, err = netip.ParseAddr(address); err == nil && space != "" && space[0] != '/' {
		err = errors.New("the namespace is no absolute path")
	}
	p.Space = space
	return p, err
}

// Ask tells a new peer its token, which is never an argument, or where it is to listen as well (Place.Text), and
// returns the port that it listens on.
func Ask(peer io.Writer, said *bufio.Reader, what string) (int, error) {
	if _, err := fmt.Fprintln(peer, what); err != nil {
		return 0, fmt.Errorf("tell it: %w", err)
	}
	line, err := said.ReadSlice('\n')
	if err != nil {
		return 0, fmt.Errorf("read the port: %w", err)
	}
	if why, failed := strings.CutPrefix(string(line), "! "); failed {
		return 0, errors.New(strings.TrimSpace(why))
	}
	port, err := strconv.ParseUint(strings.TrimSpace(string(line)), 10, 16)
	if err != nil {
		return 0, fmt.Errorf("read the port: %q is not a port number", line)
	}
	return int(port), nil
}

// Hello is the greeting of a connection.
type Hello struct {
	Token Token
	Op    Op
	// Member is an Up or Down that belongs to a group: its cookie follows the greeting.
	Member bool
	Size   int // bytes: Up and Down: the peer's reads and writes; Echo: a message; Datagrams: one of them; Gather:
	// not bytes but how many connections will follow; else 0
}

// helloSize is the length of a greeting: token, operation, whether it belongs to a group, two zeros, size.
const helloSize = 32 + 1 + 3 + 4

func (h *Hello) pack() []byte {
	member := byte(0)
	if h.Member {
		member = 1
	}
	b := append(h.Token[:len(h.Token):len(h.Token)], byte(h.Op), member, 0, 0)
	return binary.LittleEndian.AppendUint32(b, uint32(h.Size))
}

var errHello = errors.New("this is not a greeting")

// parseHello parses a greeting. It does not check the token.
func parseHello(b []byte) (h Hello, err error) {
	if len(b) != helloSize || b[33] > 1 || b[34] != 0 || b[35] != 0 {
		return h, errHello
	}
	h = Hello{Token: Token(b[:32]), Op: Op(b[32]), Member: b[33] == 1, Size: int(binary.LittleEndian.Uint32(b[36:]))}
	if h.Member && h.Op != Up && h.Op != Down {
		return h, errHello
	}
	least, most := 1, 0
	switch h.Op {
	case Up, Down:
		most = MaxBlock
	case Echo:
		most = MaxMessage
	case Datagrams:
		least, most = MinDatagram, MaxDatagram
	case Gather:
		most = maxGroup
	case Usage, Touch, Page:
	default:
		return h, errHello
	}
	if h.Size > most || most > 0 && h.Size < least {
		return h, errHello
	}
	return h, nil
}

// parseAmount reads a request.
func parseAmount(b []byte) (int64, error) {
	if n := binary.LittleEndian.Uint64(b); n >= 1 && n <= maxAmount {
		return int64(n), nil
	}
	return 0, errors.New("this is not a valid amount")
}

// The peer's answers to a greeting.
const (
	admitted byte = iota + 1
	wrongToken
	wrongHello
	full
)

// refusals explain the answers that refuse a connection.
var refusals = map[byte]string{
	wrongToken: "the peer does not know this run's token: the peer belongs to another run",
	wrongHello: "the peer does not understand this agent",
	full:       "the peer has reached its limit of connections",
}

// Used is the CPU time that the peer's process has used since it began.
type Used struct {
	CPU  time.Duration // of all its threads; below 0: not known
	CPUs int           // processors it may use
}

const usedSize = 16

func (u Used) pack() []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(u.CPU))
	return binary.LittleEndian.AppendUint64(b, uint64(u.CPUs))
}

func parseUsed(b []byte) Used {
	return Used{CPU: time.Duration(binary.LittleEndian.Uint64(b)), CPUs: int(binary.LittleEndian.Uint64(b[8:]))}
}

// Receipt is the peer's report of a transfer.
type Receipt struct {
	Bytes int64 // received or sent
	// Info has the statistics of this connection by the peer's kernel; Resent is below 0 if it has none.
	Info sock.Info
}

const receiptSize = 32

// infoOf is the part of a receipt that the kernel knows.
func infoOf(fd sock.FD) sock.Info {
	if info, ok := sock.Stat(fd); ok {
		return info
	}
	return sock.Info{Resent: -1}
}

func (r Receipt) put(b []byte) {
	for i, v := range []int64{r.Bytes, r.Info.Resent, int64(r.Info.RTT), r.Info.Window} {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(v))
	}
}

func parseReceipt(b []byte) Receipt {
	field := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	return Receipt{Bytes: field(0), Info: sock.Info{Resent: field(1), RTT: time.Duration(field(2)), Window: field(3)}}
}

// Pages are servers of web pages on the loopback of the peer's machine or in a network of the run's own, for work that
// fetches one over the network. They are not part of the peer, which does not start them itself.
type Pages interface {
	// Serve returns the server at a place of a page of so many bytes from a seed: always the same server for the same
	// page, started on first use.
	Serve(at Place, size int64, seed uint64) (Served, error)
	Close() error
}

// Served is a web server as its clients see it.
type Served struct {
	Port int
	CPU  time.Duration // that it has used so far; below 0: not known
	Name string        // of the program, with its version
}

// servedSize is the length of the fixed part of the peer's answer about a page. A text follows: the server's name or,
// if the port is 0, the error.
const servedSize = 8 + 8 + 2

// maxText bounds that text.
const maxText = 4096

func (s Served) pack(err error) []byte {
	text := s.Name
	if err != nil {
		s.Port, text = 0, err.Error()
	}
	text = text[:min(len(text), maxText)]
	b := binary.LittleEndian.AppendUint64(nil, uint64(s.Port))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.CPU))
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(text))), text...)
}

func parseServed(b []byte) (s Served, text int, err error) {
	port, text := binary.LittleEndian.Uint64(b), int(binary.LittleEndian.Uint16(b[16:]))
	if port > 65535 || text > maxText {
		return s, 0, errors.New("this is not an answer about a page")
	}
	return Served{Port: int(port), CPU: time.Duration(binary.LittleEndian.Uint64(b[8:]))}, text, nil
}
