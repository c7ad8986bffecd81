//go:build !unix

package netpeer

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// OS lists the systems (GOOS) on which the peer and its clients work.
func OS() []string { return []string{"linux", "darwin", "freebsd"} }

var errUnsupported = errors.New("network workloads need Linux, macOS or FreeBSD on both sides")

// Main is the role of an executable that is the peer. It returns the exit code.
func Main(_ io.Reader, _, errOut io.Writer, _ Pages) int {
	fmt.Fprintf(errOut, "tare: peer: %v\n", errUnsupported)
	return 1
}

// CPUTime is not known here.
func CPUTime() time.Duration { return -1 }

// CPUs is how many processors this process may use.
func CPUs() int { return runtime.GOMAXPROCS(0) }

// Dialer makes connections to a peer.
type Dialer struct{}

// NewDialer says that there are none here.
func NewDialer(string, string, Op, int) (*Dialer, error) { return nil, errUnsupported }

// Dial makes a connection.
func (*Dialer) Dial() (*Conn, error) { return nil, errUnsupported }

// Touch makes a connection and closes it.
func (*Dialer) Touch() error { return errUnsupported }

// Conn is a connection to a peer.
type Conn struct{}

func (*Conn) Close() error                        { return nil }
func (*Conn) Ask(int64) error                     { return errUnsupported }
func (*Conn) Write([]byte) error                  { return errUnsupported }
func (*Conn) Read([]byte) error                   { return errUnsupported }
func (*Conn) Up([]byte, int64) (Receipt, error)   { return Receipt{}, errUnsupported }
func (*Conn) Down([]byte, int64) (Receipt, error) { return Receipt{}, errUnsupported }
func (*Conn) Page(int64, uint64) (Served, error)  { return Served{}, errUnsupported }
func (*Conn) Usage() (Used, error)                { return Used{}, errUnsupported }
func (*Conn) Retransmits() int64                  { return -1 }
