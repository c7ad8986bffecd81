package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// openHandshake starts a container that has nothing to do with tare, and times how an agent comes into it.
func openHandshake(ctx context.Context, b *bench) (_ *contest, err error) {
	agents, err := b.agents(ctx)
	if err != nil {
		return nil, err
	}
	engine, stop, err := findEngine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	path, err := agents.Path("linux", runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	name, image := b.runID, b.runID+":1"
	if err := engine.start(ctx, name, image, path); err != nil {
		return nil, err
	}
	spec := env.Spec{Name: "box", Driver: engine.driver, Settings: map[string]string{"container": name}}
	if engine.host != "" {
		spec.Settings["host"] = engine.host
	}
	e, err := b.openEnv(ctx, spec)
	if err != nil {
		return nil, errors.Join(err, engine.remove(name, image))
	}
	return &contest{
		tare: func(ctx context.Context) ([]float64, error) {
			// An environment that was just opened has its agent in place; the next one has to be put there again.
			placed, err := b.placed(ctx, spec)
			if err != nil {
				return nil, err
			}
			put, err := b.handshake(ctx, e)
			return []float64{placed, put}, err
		},
		notes: []string{"tare: `-e box=" + engine.driver + "?container=NAME`, on " + engine.version},
		close: func() error { return errors.Join(e.Close(), engine.remove(name, image), stop()) },
	}, nil
}

// placed times the handshake with the agent that opening an environment has put in place.
func (b *bench) placed(ctx context.Context, spec env.Spec) (float64, error) {
	e, err := b.openEnv(ctx, spec)
	if err != nil {
		return 0, err
	}
	took, err := b.handshake(ctx, e)
	return took, errors.Join(err, e.Close())
}

// handshake times from starting the agent to its welcome.
func (b *bench) handshake(ctx context.Context, e env.Env) (float64, error) {
	began := time.Now()
	s, err := b.greet(ctx, e)
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	return took.Seconds(), s.Close()
}

// engine is a container engine that answers.
type engine struct {
	driver  string   // "docker" or "podman"
	host    string   // "" for the client's choice
	client  []string // argv prefix
	version string
}

// findEngine returns a Docker daemon of its own where one can be started, else the engine that answers on this machine.
func findEngine(ctx context.Context) (engine, func() error, error) {
	d, refusal := dockertest.Launch()
	if refusal == nil {
		e := engine{driver: "docker", host: d.Host, client: d.Client()}
		e.version = e.tell(ctx)
		return e, d.Close, nil
	}
	for _, name := range []string{"docker", "podman"} {
		e := engine{driver: name, client: []string{name}}
		if e.version = e.tell(ctx); e.version != "" {
			return e, func() error { return nil }, nil
		}
	}
	return engine{}, nil,
		missing{fmt.Sprintf("neither Docker nor Podman answers, and a daemon of its own could not be started: %v",
			refusal)}
}

func (e *engine) argv(args ...string) []string { return slices.Concat(e.client, args) }

// tell returns the engine's name and version; "" when it does not answer.
func (e *engine) tell(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	format := map[string]string{"docker": "Docker {{.Server.Version}}",
		"podman": "Podman {{.Version.Version}}"}[e.driver]
	verb := map[string]string{"docker": "version", "podman": "info"}[e.driver]
	out, err := proc.Run(ctx, nil, e.argv(verb, "--format", format)...)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// start makes an image of one program and runs it in a container that stays: an agent that waits for a controller, as a
// program that is linked to nothing and does nothing.
func (e *engine) start(ctx context.Context, name, image, program string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	err = w.WriteHeader(&tar.Header{Name: "wait", Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("pack %s: %w", filepath.Base(program), err)
	}
	ctx, cancel := context.WithTimeout(ctx, openDeadline)
	defer cancel()
	if _, err := proc.Run(ctx, &archive, e.argv("import", "-", image)...); err != nil {
		return fmt.Errorf("make an image: %w", err)
	}
	_, err = proc.Run(ctx, nil, e.argv("run", "--detach", "--interactive", "--network", "none", "--stop-timeout", "0",
		"--name", name, "--entrypoint", "/wait", image, "agent")...)
	if err != nil {
		return errors.Join(fmt.Errorf("start a container: %w", err), e.remove(name, image))
	}
	return nil
}

// remove removes what start made.
func (e *engine) remove(name, image string) error {
	ctx, cancel := context.WithTimeout(context.Background(), openDeadline)
	defer cancel()
	_, err := proc.Run(ctx, nil, e.argv("rm", "--force", name)...)
	_, err2 := proc.Run(ctx, nil, e.argv("rmi", image)...)
	return errors.Join(err, err2)
}
