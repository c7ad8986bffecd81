package mount

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"tare/internal/sys/proc"
)

const (
	// patience is how long a server may take until it answers.
	patience = time.Minute
	// goodbye is how long a server may take to end when asked, before it is killed.
	goodbye = 4 * time.Second
	// maxEvidence is how much is kept of each of a server's output streams and of its log, in bytes.
	maxEvidence = 16 << 10
)

// daemon is a running server.
type daemon struct {
	stream *proc.Stream
	stop   context.CancelFunc
	out    *proc.Tail
	log    string // a file that it writes to; "" if it has none
}

// launch starts a server. change changes the command before it starts; it may be nil.
func launch(argv []string, log string, change func(*proc.Cmd)) (*daemon, error) {
	// The opening's context does not fit, because the server outlives it.
	ctx, stop := context.WithCancel(context.Background())
	cmd := proc.Command(ctx, argv...)
	if change != nil {
		change(cmd)
	}
	d := &daemon{stop: stop, out: proc.NewTail(maxEvidence), log: log}
	var err error
	if d.stream, err = proc.Start(cmd); err != nil {
		stop()
		return nil, err
	}
	go io.Copy(d.out, d.stream)
	return d, nil
}

// finalError is an error that does not change by waiting.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// await asks the server again and again, until it answers, returns a finalError or has ended, or patience is over.
func (d *daemon) await(ctx context.Context, answers func(context.Context) error) error {
	ctx, cancel := proc.WithTimeout(ctx, patience)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := answers(ctx)
		select {
		case <-d.stream.Done():
			// The answer came from another server.
			return d.ended()
		default:
		}
		if _, final := errors.AsType[finalError](err); final || err == nil {
			return err
		}
		select {
		case <-d.stream.Done():
			return d.ended()
		case <-ctx.Done():
			if ctx.Err() == context.DeadlineExceeded {
				return fmt.Errorf("no answer within %v: %w", patience, err)
			}
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (d *daemon) ended() error {
	return endedBeforehand(d.stream.Err(), d.lastSaid())
}

// lastSaid is the last line of output of a server that has ended: of its log, if it has one.
func (d *daemon) lastSaid() string {
	if d.log != "" {
		if l := lastLine(tailOf(d.log)); l != "" {
			return l
		}
	}
	return lastLine(append(d.out.Bytes(), d.stream.Stderr()...))
}

// endedBeforehand is the error of a server that ended before it served. Its last output explains more than its exit
// status.
func endedBeforehand(how error, said string) error {
	err := errors.New("the server ended at its start")
	if how != nil {
		err = fmt.Errorf("%w: %w", err, how)
	}
	if said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// life tells when and how the server ends.
func (d *daemon) life() (<-chan struct{}, func() error) { return d.stream.Done(), d.stream.How }

// pid is the server's process, 0 if it has ended.
func (d *daemon) pid() int {
	select {
	case <-d.stream.Done():
		return 0
	default:
		return d.stream.Pid()
	}
}

// close ends the server and all processes that it has started, and returns when they are gone.
func (d *daemon) close() {
	family := descendants(d.stream.Pid(), d.stream.Done())
	d.stop()
	// This comes before the wait for the stream, which a descendant can delay by holding the output open.
	family.end(goodbye)
	select {
	case <-d.stream.Done():
	case <-time.After(goodbye):
		d.stream.Kill()
	}
	d.stream.Close()
}

// diagnose returns the end of the server's output.
func (d *daemon) diagnose() []byte {
	said := append(d.out.Bytes(), d.stream.Diagnose()...)
	if d.log == "" {
		return said
	}
	return append(tailOf(d.log), said...)
}

// tailOf returns the end of a file; nothing if it cannot be read.
func tailOf(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxEvidence {
		if _, err := f.Seek(-maxEvidence, io.SeekEnd); err != nil {
			return nil
		}
	}
	b, _ := io.ReadAll(io.LimitReader(f, maxEvidence)) // a part is better than nothing
	return b
}
