package mount

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"tare/internal/sys/proc"
)

// listenFD is the descriptor of a kept daemon's socket: the first after the standard streams.
const listenFD = 3

// maxStarts bounds how often a kept daemon is started, so that one that ends at once does not keep the machine busy.
const maxStarts = 20

// keeper restarts a virtiofsd whenever it has ended. The daemon ends with each client. The first client is the probe;
// the next may be a QEMU whose accelerator fails; only the one after that may be the machine that is measured. The
// keeper owns the socket, so that it always exists: an early client waits in its queue.
type keeper struct {
	argv   []string
	socket string
	file   *os.File // the listening socket
	log    *slog.Logger
	quit   chan struct{}
	done   chan struct{} // closed when no daemon runs any more
	once   sync.Once

	mu     sync.Mutex
	now    *daemon
	past   []byte // output of earlier daemons
	serves bool   // a daemon has answered
	failed error  // why no more daemons are started
	said   string // last line of the last daemon's output
}

// keepListening makes a socket and starts a daemon that serves its clients.
func keepListening(argv []string, socket string, log *slog.Logger) (*keeper, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	file, err := l.File()
	l.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("share %s: %w", socket, err), os.Remove(socket))
	}
	k := &keeper{argv: argv, socket: socket, file: file, log: log, quit: make(chan struct{}), done: make(chan struct{})}
	if err := k.start(); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(socket))
	}
	go k.keep()
	return k, nil
}

func (k *keeper) start() error {
	d, err := launch(k.argv, "", func(c *proc.Cmd) { c.ExtraFiles = []*os.File{k.file} })
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.now = d
	k.mu.Unlock()
	return nil
}

// keep restarts the daemon until it is told to quit or there were too many starts.
func (k *keeper) keep() {
	defer close(k.done)
	// No client must wait in the queue of a socket that is not served.
	defer k.file.Close()
	for starts := 1; ; starts++ {
		d := k.now
		select {
		case <-k.quit:
			d.close()
			return
		case <-d.stream.Done():
		}
		d.close()
		k.mu.Lock()
		if k.past = append(k.past, d.diagnose()...); len(k.past) > maxEvidence {
			k.past = k.past[len(k.past)-maxEvidence:]
		}
		k.said = d.lastSaid()
		serves := k.serves
		k.mu.Unlock()
		k.log.Debug("virtiofsd has ended with its client", "socket", k.socket, "starts", starts, "error",
			d.stream.Err())
		err := d.stream.Err()
		if starts == maxStarts {
			err = fmt.Errorf("virtiofsd has ended %d times", starts)
		} else if serves {
			// A daemon that ended before it ever answered would do so again.
			if err = k.start(); err == nil {
				continue
			}
		}
		k.mu.Lock()
		k.failed = err
		k.mu.Unlock()
		return
	}
}

// await greets the daemon as QEMU would. The daemon that answered then ends, and the next one starts.
func (k *keeper) await(ctx context.Context) error {
	ctx, cancel := proc.WithTimeout(ctx, patience)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- k.greet(ctx) }()
	select {
	case err := <-answered:
		if err == nil {
			return nil
		}
		// A daemon that ends closes the connection a moment before its end is known.
		select {
		case <-k.done:
			return k.why()
		case <-time.After(5 * time.Second):
			return fmt.Errorf("greet virtiofsd: %w", err)
		}
	case <-k.done:
		return k.why()
	}
}

func (k *keeper) why() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return endedBeforehand(k.failed, k.said)
}

// greet connects to the daemon, checks that it answers, and disconnects. The daemon then ends.
func (k *keeper) greet(ctx context.Context) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", k.socket)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err := greetVhost(c); err != nil {
		return err
	}
	k.mu.Lock()
	k.serves = true
	k.mu.Unlock()
	return nil
}

// greetVhost asks for the device's features (VHOST_USER_GET_FEATURES, QEMU's docs/interop/vhost-user.rst) and checks
// the form of the answer.
func greetVhost(c io.ReadWriter) error {
	const getFeatures, version1, reply = 1, 1, 4
	question := make([]byte, 12) // request, flags, size of what follows
	binary.NativeEndian.PutUint32(question, getFeatures)
	binary.NativeEndian.PutUint32(question[4:], version1)
	if _, err := c.Write(question); err != nil {
		return err
	}
	var answer [20]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return err
	}
	if r, f := binary.NativeEndian.Uint32(answer[:]), binary.NativeEndian.Uint32(answer[4:]); r != getFeatures ||
		f != version1|reply {
		return fmt.Errorf("the answer %x is not vhost-user", answer)
	}
	return nil
}

// life is the life of the current daemon. Earlier daemons ended with clients that are gone.
func (k *keeper) life() (<-chan struct{}, func() error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now.life()
}

// pid is the process of the current daemon.
func (k *keeper) pid() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now.pid()
}

func (k *keeper) diagnose() []byte {
	k.mu.Lock()
	said, now := append([]byte(nil), k.past...), k.now
	k.mu.Unlock()
	select {
	case <-k.done:
		return said
	default:
		return append(said, now.diagnose()...)
	}
}

// close ends the daemon and removes the socket.
func (k *keeper) close() error {
	k.once.Do(func() { close(k.quit) })
	<-k.done
	if err := os.Remove(k.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
