package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// stopTime limits how long a service may take to stop.
const stopTime = 15 * time.Second

// runService is a service's whole life: it reads a job, starts the service of the job's kind, reports its endpoint, and
// stops it when the input ends, which it does when the agent ends, or on a signal. It returns the exit code.
func runService(kinds []workload.Kind, dir, home string, in io.Reader, out, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := wire.NewReader(in)
	f, err := r.Read()
	if err != nil {
		return 1
	}
	go func() {
		defer cancel()
		for {
			if _, err := r.Read(); err != nil {
				return
			}
		}
	}()
	w := &worker{kinds: kinds, dir: dir, home: home, out: wire.NewWriter(out), request: f}
	running, serving, fail := w.startService(ctx)
	if fail != nil {
		_ = w.fail(fail) // if that fails, nobody is listening
		return 1
	}
	code := 0
	if err := w.out.JSON(wire.TypeService, 0, serving); err == nil {
		select {
		case <-ctx.Done():
		case <-running.Done():
			code = 1
			fail = running.Ended()
			fail.Kind = kindServiceDied
			_ = w.fail(fail) // as above
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err := running.Stop(end); err != nil {
		fmt.Fprintf(stderr, "tare-agent: stop service: %v\n", err)
		return 1
	}
	return code
}

// startService starts the service of the job in the request.
func (w *worker) startService(ctx context.Context) (running workload.Running, serving wire.Serving,
	fail *record.Failure) {
	var j wire.Job
	if w.request.Type != wire.TypeService {
		return nil, serving, &record.Failure{Kind: kindRefused,
			Message: fmt.Sprintf("a service does not serve a %s frame", w.request.Type)}
	}
	if err := w.request.Decode(&j); err != nil {
		return nil, serving, &record.Failure{Kind: kindRefused, Message: err.Error()}
	}
	c, fail := w.look(j)
	if fail != nil {
		return nil, serving, fail
	}
	if c.kind.ServiceKey(c.params) != j.Service {
		return nil, serving, &record.Failure{Kind: kindRefused,
			Message: fmt.Sprintf("%s has no service %.100q with these parameters", c.kind.Name, j.Service)}
	}
	b := w.bench(j)
	fail = c.guard("setup", func() (err error) {
		running, err = c.kind.Service(c.params).Start(ctx, b)
		return err
	})
	if fail != nil {
		return nil, serving, fail
	}
	return running, wire.Serving{Endpoint: running.Endpoint(), State: b.State}, nil
}
