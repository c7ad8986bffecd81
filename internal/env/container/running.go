package container

import (
	"context"
	"fmt"
	"path"
	"sync"

	"tare/internal/env"
	"tare/internal/record"
)

// running is an environment in a container that was there before and stays there.
type running struct {
	engine engine
	opts   env.Options
	name   string // the container's, as the user named it
	place  string // the folder that was put into it
	exec   []string
	facts  record.Facts

	mu     sync.Mutex
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
		return nil, &env.OpenError{Env: o.Name, Op: "find container", Err: fmt.Errorf("container %s is %s, not running", c.name, seen.State.Status),
			Remedy: fmt.Sprintf("start it with `%s start %s`", e.name, c.name)}
	}
	img, err := e.image(ctx, seen.Image)
	if err != nil {
		return fail("find image of container", err)
	}
	agentPath, err := o.Agents.Path(img.OS, img.Arch)
	if err != nil {
		return fail("choose agent", err)
	}
	folderName := "." + containerName(o.RunID, o.Name)
	c.place = path.Join("/", o.Get("dir", "/"), folderName)
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	// The folder is open to the user that the container runs as; the agent in it belongs to root.
	archive := agentArchive(agentPath, folderName+"/"+agentName, folder{folderName, dirMode}, folder{folderName + "/work", dirMode})
	defer archive.Close()
	if _, err = e.finish(ctx, archive, "cp", "-", c.name+":"+path.Dir(c.place)); err != nil {
		return fail("put agent into container", err)
	}
	if err = ctx.Err(); err != nil {
		return fail("put agent into container", context.Cause(ctx))
	}
	c.exec = []string{"exec", "--interactive"}
	if u := o.Get("user", ""); u != "" {
		c.exec = append(c.exec, "--user", u)
	}
	c.exec = append(c.exec, c.name, path.Join(c.place, agentName), "agent", "--dir", path.Join(c.place, "work"))
	c.facts = seen.facts(a, img, path.Join(c.place, "work"))
	c.facts.Settings["container"] = c.name
	if u := o.Get("user", ""); u != "" {
		c.facts.Settings["user"] = u
	}
	c.facts.Command = e.argv(c.exec...)
	return c, nil
}

// Agent runs the agent in the container.
func (c *running) Agent(ctx context.Context) (env.Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("start agent in %s: the environment is closed", c.opts.Name)
	}
	return startAgent(ctx, c.engine, c.opts.Name, c.name, c.exec...)
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
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := c.remove(ctx); err != nil {
		return fmt.Errorf("close %s: remove %s from container %s: %w; remove it by hand", c.opts.Name, c.place, c.name, err)
	}
	return nil
}

// remove asks the agent to remove the folder with itself in it, because the container may hold nothing else that can.
func (c *running) remove(ctx context.Context) error {
	_, err := c.engine.run(ctx, nil, "exec", "--user", "0", c.name, path.Join(c.place, agentName), "remove", c.place)
	if err == nil || noSuch(err) {
		return nil
	}
	if _, e := c.engine.run(ctx, nil, "exec", "--user", "0", c.name, "rm", "-rf", "--", c.place); e == nil || noSuch(e) {
		return nil
	}
	return err
}
