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

// listenFD is the descriptor by which a kept daemon finds its socket: the first after the standard streams.
const listenFD = 3

// maxStarts is how often a kept daemon is started, so that one that ends at once cannot keep the machine busy.
const maxStarts = 20

// keeper starts a virtiofsd again whenever it has ended. The daemon ends with its first client, which is the probe; the
// next may be a QEMU that tries an accelerator in vain, and only the one after that the machine that is measured. The
// socket is the keeper's, so that none of them finds it missing: a client that comes early waits in its queue.
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
	past   []byte // what earlier daemons said
	serves bool   // a daemon has answered
	failed error  // why none is started any more
	said   string // the last line of the last
}

// keepListening starts a daemon that serves the clients of a new socket.
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

// keep starts daemons until it is told to quit or there have been too many.
func (k *keeper) keep() {
	defer close(k.done)
	// A client must not wait in the queue of a socket that nobody will serve.
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
			// One that ends before it has ever answered would not do better a second time.
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

// await greets the daemon as QEMU would. The daemon that answered ends, and the next takes its place.
func (k *keeper) await(ctx context.Context) error {
	ctx, cancel := proc.WithPatience(ctx, patience)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- k.greet(ctx) }()
	select {
	case err := <-answered:
		if err == nil {
			return nil
		}
		// A daemon that ends cuts the connection a moment before its end is known.
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

// greet connects to the daemon, checks that it answers, and leaves, with which the daemon ends.
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

// greetVhost asks for a device's features (VHOST_USER_GET_FEATURES, QEMU's docs/interop/vhost-user.rst) and checks that
// the answer is one.
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
		return fmt.Errorf("the answer %x is not one of vhost-user", answer)
	}
	return nil
}

// life is that of the daemon that serves now. Earlier ones ended with clients that are no longer.
func (k *keeper) life() (<-chan struct{}, func() error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now.life()
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
