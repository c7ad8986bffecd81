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
	// goodbye is how long one may take to end when asked, before it is killed.
	goodbye = 4 * time.Second
	// maxEvidence is how much of each of a server's streams and of its log is kept, bytes.
	maxEvidence = 16 << 10
)

// daemon is a running server.
type daemon struct {
	stream *proc.Stream
	stop   context.CancelFunc
	out    *proc.Tail
	log    string // a file it writes to, "" when it has none
}

// launch starts a server; change adapts the command before it starts, nil when nothing is to be.
func launch(argv []string, log string, change func(*proc.Cmd)) (*daemon, error) {
	// Its own context and not the opening's, which ends long before the server does.
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

// finalError is an answer that waiting does not change.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// await asks again and again whether the server answers, until it does, gives a finalError, has
// ended, or patience is at its end.
func (d *daemon) await(ctx context.Context, answers func(context.Context) error) error {
	ctx, cancel := proc.WithPatience(ctx, patience)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := answers(ctx)
		select {
		case <-d.stream.Done():
			// Whatever answered, it was not this server.
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
				return fmt.Errorf("it does not answer within %v: %w", patience, err)
			}
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (d *daemon) ended() error {
	return endedBeforehand(d.stream.Err(), d.lastSaid())
}

// lastSaid is the last line of a server that has ended: of its log, where it has one.
func (d *daemon) lastSaid() string {
	if d.log != "" {
		if l := lastLine(tailOf(d.log)); l != "" {
			return l
		}
	}
	return lastLine(append(d.out.Bytes(), d.stream.Stderr()...))
}

// endedBeforehand is the error of a server that ended when it should serve. What it said last says more than its
// status.
func endedBeforehand(how error, said string) error {
	err := errors.New("it ended instead of serving")
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

// close ends the server with all it has started, and returns when it is gone.
func (d *daemon) close() {
	family := descendants(d.stream.Pid(), d.stream.Done())
	d.stop()
	// Before waiting for the server's end to be known, which is put off while a descendant holds its output open.
	family.end(goodbye)
	select {
	case <-d.stream.Done():
	case <-time.After(goodbye):
		d.stream.Kill()
	}
	d.stream.Close()
}

// diagnose returns the end of what the server said.
func (d *daemon) diagnose() []byte {
	said := append(d.out.Bytes(), d.stream.Diagnose()...)
	if d.log == "" {
		return said
	}
	return append(tailOf(d.log), said...)
}

// tailOf returns the end of a file, nothing when it cannot be read.
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
	b, _ := io.ReadAll(io.LimitReader(f, maxEvidence)) // what could be read is better than nothing
	return b
}
