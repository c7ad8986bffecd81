// Package container drives Docker and Podman through their command line programs.
//
// It is opinionated about three things. It uses the client program and not a library: the user's contexts, credentials
// and versions then work unchanged, and the client works with daemons that the libraries reject. The agent is the
// container's entrypoint and is copied in with `cp`, so the image needs no shell and no libc. And the engine cleans up
// if tare cannot: when the client ends, the container's input ends; then the agent ends; then the engine removes the
// container (--rm).
package container

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/stack"
	"tare/internal/sys/proc"
)

// Infos lists the drivers of this package.
func Infos() []env.Info {
	docker := info("docker", "A container made by Docker from an image; without an image, an empty container.")
	docker.Here = docker.Name
	return []env.Info{
		docker,
		info("podman", "A container made by Podman from an image; without an image, an empty container."),
	}
}

func info(name, doc string) env.Info {
	e := engine{name: name}
	return env.Info{
		Name:     name,
		Doc:      doc,
		ArgDoc:   "IMAGE",
		Settings: settings(),
		Mounts:   mountKinds(name),
		Driver:   driver{name},
		Nature:   env.Nature{Kernel: env.KernelMaybe, Arg: env.NamesImage},
		Probe:    func(ctx context.Context) env.Status { return probe(ctx, e) },
		Has: func(ctx context.Context, s env.Spec) env.Status {
			if status := stack.Has(ctx, s); !status.OK {
				return status
			}
			return has(ctx, newEngine(name, s.Get("host", "")), s)
		},
		Reach: reach,
		Clean: func(ctx context.Context, dry bool) ([]string, error) {
			return clean(ctx, e, thisProcess(), dry)
		},
	}
}

// driver opens containers with one engine, which has the name of its program.
type driver struct{ engine string }

// Open makes a container that is ready to run the agent, or puts the agent into a running one (setting container).
func (d driver) Open(ctx context.Context, o env.Options) (env.Env, error) {
	e := newEngine(d.engine, o.Get("host", ""))
	if err := checkSpec(o.Spec); err != nil {
		return nil, openError(e, o.Name, "read settings", err)
	}
	about, err := e.info(ctx)
	if err != nil {
		return nil, openError(e, o.Name, "run "+e.name+" info", err)
	}
	if o.Get("container", "") != "" {
		return openRunning(ctx, e, about, o)
	}
	return openNew(ctx, e, about, o)
}

// openError makes an *env.OpenError from an engine's error, with a remedy and the engine's output as evidence.
func openError(e engine, name, op string, err error) error {
	oe := &env.OpenError{Env: name, Op: op, Err: err, Remedy: e.remedy(err)}
	if x, ok := errors.AsType[*proc.ExitError](err); ok {
		oe.Evidence = []byte(x.Stderr)
	}
	return oe
}

// probeTime bounds how long a probe waits for the engine's answer.
const probeTime = 10 * time.Second

// probe tells whether the engine's client is installed and its daemon answers.
func probe(ctx context.Context, e engine) env.Status {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	about, err := e.info(ctx)
	switch {
	case err == nil:
		return env.Status{OK: true, Detail: about.String()}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return env.Status{Detail: fmt.Sprintf("%s did not answer within %v", e.name, probeTime), Remedy: e.startIt()}
	}
	return env.Status{Detail: err.Error(), Remedy: e.remedy(err)}
}
