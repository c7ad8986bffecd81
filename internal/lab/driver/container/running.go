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

// existingContainer is an environment in a container that existed before and stays.
type existingContainer struct {
	engine    engine
	opts      env.Options
	name      string // the container's name, as given by the user
	agentPath string
	place     string // the folder made in it; the agent removes it at its end
	exec      []string
	facts     record.Facts

	mu     sync.Mutex
	ready  bool    // the agent was copied and not started since
	stream *stream // of the last agent
	closed bool
}

// openRunning puts the agent into a container that tare did not make.
func openRunning(ctx context.Context, e engine, a engineInfo, o env.Options) (_ env.Env, err error) {
	fail := func(op string, err error) (env.Env, error) { return nil, openError(e, o.Name, op, err) }
	c := &existingContainer{engine: e, opts: o, name: o.Get("container", "")}
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
		c.Close() // removes the agent, where it was copied before ctx ended
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

// put copies the agent into the container. It goes on when ctx ends, so that the result is known.
func (c *existingContainer) put(ctx context.Context) error {
	// The folder is writable for the user that the agent runs as; the agent's file belongs to root.
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
func (c *existingContainer) Agent(ctx context.Context) (env.Stream, error) {
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

// Mounts are directories that already exist in the container.
func (c *existingContainer) Mounts() []env.Mounted {
	var all []env.Mounted
	for _, s := range c.opts.Mounts {
		m := dirs.Given([]env.Spec{s}, c.opts.Name, false)[0]
		if s.Driver != dirs.Dir {
			m.Err = &env.OpenError{Env: c.opts.Name + ":" + s.Name, Op: "make mount",
				Err:    fmt.Errorf("a %s cannot be added to a running container", s.Driver),
				Remedy: "use a directory that exists in it: " + dirs.Dir + ":PATH"}
		}
		all = append(all, m)
	}
	return all
}

// Facts returns what the engine reports about the container.
func (c *existingContainer) Facts() record.Facts { return c.facts }

// Close removes the agent's folder from the container. The container itself stays.
func (c *existingContainer) Close() error {
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

// remove removes the folder if it still exists. The container may have no program that removes files, so an agent does
// it: it runs as root, finds its input empty, and ends.
func (c *existingContainer) remove(ctx context.Context) error {
	_, err := c.engine.run(ctx, nil, "cp", c.name+":"+c.place, "-")
	if noSuch(err) || says(err, "could not find the file", "no such file") {
		return nil
	}
	if err == nil {
		err = c.put(ctx) // the earlier agent may have removed itself, but not its folder, for lack of rights
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
