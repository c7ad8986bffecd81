package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// content is the data that a private server is loaded with.
type content struct {
	key string // of all that it depends on, but for the run's seed
	// database returns the name of the database if no parameter does; nil or "" for the usual one.
	database func(b *workload.Bench) (string, error)
	// fill loads an empty database. It is called once for each data directory.
	fill func(ctx context.Context, b *workload.Bench, t *target) error
}

// service returns the private server for a kind's parameters, nil if they give an address or are wrong, which New says.
func service(p workload.Params, c content) *workload.Service {
	t, err := newTarget(p)
	if err != nil || !t.private {
		return nil
	}
	key := strings.Join([]string{string(t.product), t.root, strings.Join(t.settings, ";"), t.Database, c.key}, "\n")
	if t.open {
		key += "\nopen"
	}
	return &workload.Service{Key: key, Start: func(ctx context.Context, b *workload.Bench) (workload.Running, error) {
		return t.start(ctx, b, key, c)
	}}
}

// loaded is the name of the file that says what the data directory beside it was loaded with.
const loaded = "loaded"

// start starts the private server, and loads it if that has not been done.
func (t *target) start(ctx context.Context, b *workload.Bench, key string, c content) (_ workload.Running, err error) {
	dir, marker := filepath.Join(b.Dir, "server"), filepath.Join(b.Dir, loaded)
	have, err := os.ReadFile(marker)
	fresh := string(have) != key
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look at the server's data: %w", err)
	}
	if fresh {
		if err := errors.Join(os.RemoveAll(marker), os.RemoveAll(dir)); err != nil {
			return nil, fmt.Errorf("remove the server's old data: %w", err)
		}
	}
	if t.unnamed && c.database != nil {
		name, err := c.database(b)
		if err != nil {
			return nil, err
		}
		if name != "" {
			t.Database, t.unnamed = name, false
		}
	}
	o := dbserver.Options{Product: t.product, Dir: dir, Root: t.root, Settings: t.settings}
	if o.Copied, err = isDirectory(b); err == nil && o.Copied && fresh {
		err = unpack(b, filepath.Join(dir, "data"))
	}
	if err != nil {
		return nil, fmt.Errorf("load the database server: %w", err)
	}
	if b.Home != "" && b.Home != b.Dir {
		o.SocketDir = b.Home
	}
	o.Open = t.open && o.Copied // which is refused
	s, err := dbserver.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && s != nil {
			err = with(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()
	t.serve(s)
	if o.Copied && t.unnamed {
		t.Database = s.Endpoint().Database // the directory has its own databases
	}
	if fresh {
		if !o.Copied {
			err = t.load(ctx, b, s.Endpoint().Database, c)
		}
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(marker, []byte(key), 0o600); err != nil {
			return nil, fmt.Errorf("note what the server was loaded with: %w", err)
		}
	}
	if t.open {
		// It has a port only when its accounts are in order: those of a new server have no password, and those of a
		// dump are not known.
		if err := t.admit(ctx); err != nil {
			return nil, fmt.Errorf("allow other hosts to connect: %w", err)
		}
		err, s = s.Stop(ctx), nil
		if err != nil {
			return nil, fmt.Errorf("allow other hosts to connect: %w", err)
		}
		o.Open = true
		if s, err = dbserver.Start(ctx, o); err != nil {
			return nil, err
		}
		t.serve(s)
	}
	r := &running{server: s}
	text, err := json.Marshal(t.endpoint)
	if err != nil {
		return nil, err
	}
	r.endpoint = string(text)
	b.Note("server_version", t.Version)
	b.Note("server_account", s.Account())
	return r, nil
}

// serve takes a server that has been started.
func (t *target) serve(s dbserver.Server) {
	e := s.Endpoint()
	t.Network, t.Address, t.User, t.Password, t.PID, t.Version, t.Port = e.Network, e.Address, e.User, e.Password,
		s.Pid(), s.Version(), e.Port
}

// load makes the database, by a connection to one that always exists, and fills it.
func (t *target) load(ctx context.Context, b *workload.Bench, first string, c content) error {
	there := *t
	there.Database = first
	conn, err := dial(ctx, &there, false)
	if err != nil {
		return err
	}
	quote := `"`
	if t.mysql() {
		quote = "`"
	}
	text := "CREATE DATABASE " + quote + strings.ReplaceAll(t.Database, quote, quote+quote) + quote
	err = conn.query([]byte(text), &answer{})
	if r, ok := errors.AsType[*refusal](err); ok && r.exists() {
		err = nil // it is one that each server has
	}
	if err := errors.Join(err, conn.close()); err != nil {
		return fmt.Errorf("create database %s: %w", t.Database, err)
	}
	if err := c.fill(ctx, b, t); err != nil {
		return fmt.Errorf("load the database server: %w", err)
	}
	return nil
}

// exists tells whether a server refused to make a database because it is there.
func (r *refusal) exists() bool { return r.code == "1007" || r.code == "42P04" }

// running is a private server.
type running struct {
	server   dbserver.Server
	endpoint string
}

func (r *running) Endpoint() string      { return r.endpoint }
func (r *running) Done() <-chan struct{} { return r.server.Done() }

func (r *running) Ended() *record.Failure {
	return &record.Failure{Message: "the database server " + r.server.Version() + " has ended",
		Evidence: r.server.Log()}
}

func (r *running) Stop(ctx context.Context) error { return r.server.Stop(ctx) }

// with adds a second error, if there is one. A single error keeps its type, which the agent looks at.
func with(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}
