package container

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"sync"

	dirs "tare/internal/lab/driver/folder"
	"tare/internal/lab/env"
	"tare/internal/record"
)

// running is an environment in a container that was there before and stays there.
type running struct {
	engine    engine
	opts      env.Options
	name      string // the container's, as the user named it
	agentPath string
	place     string // the folder that is put into it; removed by the agent when it leaves
	exec      []string
	facts     record.Facts

	mu     sync.Mutex
	ready  bool    // the agent has been put and not been started since
	stream *stream // of the agent that was started last
	closed bool
}

// openRunning puts the agent into a container that somebody else runs.
func openRunning(ctx context.Context, e engine, a about, o env.Options) (_ env.Env, err error) {
	fail := func(op string, err error) (env.Env, error) { return nil, openError(e, o.Name, op, err) }
	c := &running{engine: e, opts: o, name: o.Get("container", "")}
	seen, err := e.inspect(ctx, c.name)
	switch {
	case err != nil:
		return fail("find container", err)
	case !seen.State.Running:
		return nil, &env.OpenError{Env: o.Name, Op: "find container",
			Err:    fmt.Errorf("container %s is %s, not running", c.name, seen.State.Status),
			Remedy: fmt.Sprintf("start it with `%s start %s`", e.name, c.name)}
	}
	img, err := e.image(ctx, seen.Image)
	if err != nil {
		return fail("find image of container", err)
	}
	if c.agentPath, err = o.Agents.Path(img.OS, img.Arch); err != nil {
		return fail("choose agent", err)
	}
	c.place = path.Join(o.Get("dir", "/"), "."+containerName(o.RunID, o.Name))
	work := path.Join(c.place, "work")
	c.exec = []string{"exec", "--interactive"}
	user := o.Get("user", seen.Config.User)
	if user != "" {
		c.exec = append(c.exec, "--user", user)
	}
	c.exec = append(c.exec, c.name, path.Join(c.place, agentName), "agent", "--dir", work, "--remove", c.place)
	if err = c.put(ctx); err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Close() // what was put before ctx ended
		return fail("put agent into container", err)
	}
	c.facts = seen.facts(a, img, work)
	c.facts.Settings["dir"] = o.Get("dir", "/")
	if user != "" {
		c.facts.Settings["user"] = user
	}
	addGiven(c.facts.Settings, o.Settings)
	c.facts.Command = e.argv(c.exec...)
	return c, nil
}

// put copies the agent into the container. It goes on when ctx ends, so that what is in there afterwards is known.
func (c *running) put(ctx context.Context) error {
	// The folder is open to the user that the agent runs as; the agent in it belongs to root.
	name := path.Base(c.place)
	archive := agentArchive(c.agentPath, name+"/"+agentName, folder{name, dirMode}, folder{name + "/work", dirMode})
	defer archive.Close()
	if _, err := c.engine.finish(ctx, archive, "cp", "-", c.name+":"+path.Dir(c.place)); err != nil {
		return err
	}
	c.ready = true
	return nil
}

// Agent runs the agent in the container.
func (c *running) Agent(ctx context.Context) (env.Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("start agent in %s: the environment is closed", c.opts.Name)
	}
	if c.stream.busy() {
		return nil, openError(c.engine, c.opts.Name, "start agent", errBusy)
	}
	if !c.ready {
		if err := c.put(ctx); err != nil {
			return nil, openError(c.engine, c.opts.Name, "put agent into container", err)
		}
	}
	c.ready = false
	s, err := startAgent(ctx, c.engine, c.opts.Name, c.name, c.exec...)
	if err != nil {
		return nil, err
	}
	c.stream = s
	return s, nil
}

// Mounts are directories that are in the container already.
func (c *running) Mounts() []env.Mounted {
	var all []env.Mounted
	for _, s := range c.opts.Mounts {
		m := dirs.Given([]env.Spec{s}, c.opts.Name, false)[0]
		if s.Driver != dirs.Dir {
			m.Err = &env.OpenError{Env: c.opts.Name + ":" + s.Name, Op: "make mount",
				Err:    fmt.Errorf("a container that runs already cannot be given a %s", s.Driver),
				Remedy: "name a directory that it has: " + dirs.Dir + ":PATH"}
		}
		all = append(all, m)
	}
	return all
}

// Facts returns what the engine says of the container.
func (c *running) Facts() record.Facts { return c.facts }

// Close removes from the container what was put into it. The container itself stays as it was.
func (c *running) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	if c.stream != nil {
		c.stream.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := c.remove(ctx); err != nil {
		return fmt.Errorf("close %s: remove %s from container %s: %w; remove it by hand", c.opts.Name, c.place, c.name,
			err)
	}
	return nil
}

// remove removes the folder, if it is still there. The container may hold no program that can remove a file, so an
// agent does it: one that runs as root, finds its input empty, and leaves.
func (c *running) remove(ctx context.Context) error {
	_, err := c.engine.run(ctx, nil, "cp", c.name+":"+c.place, "-")
	if noSuch(err) || says(err, "could not find the file", "no such file") {
		return nil
	}
	if err == nil {
		err = c.put(ctx) // the agent that was there may have removed itself, but had no right to remove its folder
	}
	if err == nil {
		_, err = c.engine.run(ctx, bytes.NewReader(nil), "exec", "--user", "0", c.name, path.Join(c.place, agentName),
			"agent", "--remove", c.place)
	}
	if noSuch(err) {
		return nil
	}
	return err
}
