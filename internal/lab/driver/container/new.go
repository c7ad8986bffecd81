package container

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/stack"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// container is an environment that tare made: one container, with the agent as its only process.
type container struct {
	engine    engine
	about     engineInfo
	opts      env.Options
	create    []string // arguments of create, without the name
	image     string
	empty     bool // it uses the empty image
	made      bool // ... which was made for this environment
	agentPath string
	dir       string
	mounts    mounts
	facts     record.Facts

	mu     sync.Mutex
	name   string  // "" if there is none
	stream *stream // of the last agent; its container is gone or ending
	closed bool
	pid    int    // of the agent on this machine; 0 if it is not known
	pidOf  string // the container that pid is of
	// servers are the engine's processes on this machine that serve a container, serversOf.
	servers   []int
	serversOf string
}

// openNew makes a container and copies the agent into it. Agent starts it.
func openNew(ctx context.Context, e engine, a engineInfo, o env.Options) (_ env.Env, err error) {
	fail := func(op string, err error) (env.Env, error) { return nil, openError(e, o.Name, op, err) }
	if v := o.Get("runtime", ""); v != "" && e.name == "podman" {
		e.global = append(slices.Clone(e.global), "--runtime", v)
	}
	imageName, img, made, err := findImage(ctx, e, a, o)
	if err != nil {
		oe := openError(e, o.Name, "find image", err)
		if x, ok := errors.AsType[*env.OpenError](oe); ok && x.Remedy == "" && o.Arg != "" {
			x.Remedy = fmt.Sprintf("get it with `%s pull %s` (needs a network), load it from a file, or "+
				"leave out the image: `%s` alone needs none", e.name, o.Arg, e.name)
		}
		return nil, oe
	}
	c := &container{engine: e, about: a, opts: o, image: imageName, empty: imageName == emptyImage, made: made,
		dir: o.Get("dir", workDir)}
	defer func() {
		if err == nil {
			return
		}
		// ctx may have ended; the cleanup must still work.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		c.remove(ctx)
		c.mounts.close()
		if c.made {
			dropEmpty(ctx, e)
		}
	}()
	if img.OS != "linux" {
		return fail("choose agent", fmt.Errorf("image %s is for %s; only linux containers are supported", imageName,
			img.OS))
	}
	if c.agentPath, err = o.Agents.Path(img.OS, img.Arch); err != nil {
		return fail("choose agent", err)
	}
	c.mounts.prepare(e, &c.opts)
	if c.create, err = c.createArgs(); err != nil {
		return fail("read settings", err)
	}
	if err = c.make(ctx); err != nil {
		return fail("create container", err)
	}
	if err = ctx.Err(); err != nil {
		return fail("create container", context.Cause(ctx))
	}
	seen, err := e.inspect(ctx, c.name)
	if err != nil {
		return fail("inspect container", err)
	}
	if err = seen.HostConfig.dropped(o.Spec); err != nil {
		return fail("set limits", err)
	}
	c.facts = seen.facts(a, img, c.dir)
	addGiven(c.facts.Settings, o.Settings)
	if st, _, ok, err := stack.Of(&o.Spec, ""); ok && err == nil {
		maps.Copy(c.facts.Extra, st.Facts())
	}
	c.facts.Command = e.argv(append([]string{"create"}, c.create...)...)
	return c, nil
}

// createArgs are the arguments of create, without the container's name.
func (c *container) createArgs() ([]string, error) {
	opts, err := createOptions(c.opts.Spec)
	if err != nil {
		return nil, err
	}
	args := []string{"--interactive", "--rm",
		// The agent's output is the protocol. If an engine wrote it to a log, too, that would disturb the measurement.
		"--log-driver", "none",
		// Stop at once: the container has nothing to save, and Podman would wait ten seconds.
		"--stop-timeout", "0",
		"--entrypoint", "/" + agentName,
	}
	if c.dir != workDir {
		// The engine makes a missing folder, and keeps the owner of one that exists in the image.
		args = append(args, "--workdir", c.dir)
	}
	for _, l := range thisProcess().labels(c.opts.RunID, c.opts.Name) {
		args = append(args, "--label", l)
	}
	args = append(args, "--pull=never") // it was pulled before, and the user was told
	args = append(append(args, opts...), c.mounts.options...)
	return append(args, c.image, "agent", "--dir", c.dir), nil
}

// agentName is the agent's file name at the root of a container.
const agentName = "tare-agent"

var notName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9_.-]+`) })

// containerName makes a name that a user recognises. It is unique even if one run opens an environment twice.
func containerName(runID, envName string) string {
	var salt [3]byte
	rand.Read(salt[:])
	return "tare-" + notName().ReplaceAllString(runID+"-"+envName, "-") + "-" + hex.EncodeToString(salt[:])
}

// make creates the container with the agent in it.
func (c *container) make(ctx context.Context) error {
	c.name = containerName(c.opts.RunID, c.opts.Name)
	create := append([]string{"create", "--name", c.name}, c.create...)
	_, err := c.engine.finish(ctx, nil, create...)
	if c.empty && noSuch(err) {
		// Another run has removed the empty image in the meantime.
		if _, c.made, err = findEmpty(ctx, c.engine, c.about); err == nil {
			_, err = c.engine.finish(ctx, nil, create...)
		}
	}
	if err != nil {
		return err
	}
	var folders []folder
	if c.dir == workDir {
		folders = append(folders, folder{strings.TrimPrefix(c.dir, "/"), dirMode})
	}
	archive := agentArchive(c.agentPath, agentName, folders...)
	defer archive.Close()
	if _, err := c.engine.run(ctx, archive, "cp", "-", c.name+":/"); err != nil {
		return fmt.Errorf("put agent into container: %w", err)
	}
	return nil
}

// inspect returns the engine's description of one container.
func (e engine) inspect(ctx context.Context, name string) (*containerInfo, error) {
	out, err := e.run(ctx, nil, "container", "inspect", name)
	if err != nil {
		return nil, err
	}
	list, err := parseInspect(out)
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("read inspect: requested one container, got %d", len(list))
	}
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

// Agent starts the container. It makes a new one if the last one was used, because a container ends with its agent.
func (c *container) Agent(ctx context.Context) (env.Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("start agent in %s: the environment is closed", c.opts.Name)
	}
	if c.stream.busy() {
		return nil, openError(c.engine, c.opts.Name, "start agent", errBusy)
	}
	if c.stream != nil {
		if err := c.remove(ctx); err != nil {
			return nil, openError(c.engine, c.opts.Name, "remove used container", err)
		}
		if err := c.make(ctx); err != nil {
			return nil, openError(c.engine, c.opts.Name, "create container", err)
		}
		c.stream = nil
	}
	s, err := startAgent(ctx, c.engine, c.opts.Name, c.name, "start", "--attach", "--interactive", c.name)
	if err != nil {
		return nil, err
	}
	c.stream = s
	return s, nil
}

// Facts returns what the engine reports about the container.
func (c *container) Facts() record.Facts {
	f := c.facts
	if c.AgentProcess() != 0 { // a process of this machine's kernel
		f.Extra = maps.Clone(f.Extra)
		f.Extra[record.SharedKernel] = "yes"
	}
	return f
}

// AgentProcess implements env.HostAgent. The engine may count processes in another namespace than this program, or run
// on another machine, but the name of a container's control group has its id everywhere.
func (c *container) AgentProcess() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.name == "" || !c.stream.busy() {
		return 0
	}
	if c.pidOf == c.name {
		return c.pid
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	out, err := c.engine.run(ctx, nil, "container", "inspect", "--format", "{{.Id}}", c.name)
	if err != nil {
		return 0
	}
	c.pid, c.pidOf = processOf(strings.TrimSpace(string(out))), c.name
	return c.pid
}

// Servers implements env.HostServers: the engine's own process for the container, and the engine's daemons. They are
// known where the agent is, so of an engine of this machine's only.
func (c *container) Servers() []int {
	agent := c.AgentProcess()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case agent == 0:
		return nil
	case c.serversOf != c.name:
		c.servers, c.serversOf = engineProcesses(agent), c.name
	}
	return c.servers
}

// engineProcesses are the engine's processes that serve the container of an agent: its ancestor that the engine
// started for this container, and the daemons, where there is one of each on this machine: of several it is not known
// which is the engine's.
func engineProcesses(agent int) (all []int) {
	const deepest = 8 // a container's first process may be a small init
	for pid, i := proc.Parent(agent), 0; pid > 1 && i < deepest; pid, i = proc.Parent(pid), i+1 {
		name := proc.Name(pid)
		if name == "conmon" {
			return []int{pid} // Podman has no daemon
		}
		if strings.HasPrefix(name, "containerd-shim") {
			all = append(all, pid)
			break
		}
	}
	if all == nil {
		return nil
	}
	groups, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return all
	}
	daemons := map[string][]int{}
	for _, dir := range groups {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if name := proc.Name(pid); name == "dockerd" || name == "containerd" {
			daemons[name] = append(daemons[name], pid)
		}
	}
	for _, name := range []string{"dockerd", "containerd"} {
		if len(daemons[name]) == 1 {
			all = append(all, daemons[name][0])
		}
	}
	return all
}

// processOf is the agent among the processes of a container on this machine; 0 if there is none. Its workers have other
// names.
func processOf(id string) int {
	const shortest = 32 // of an id, in digits
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil || len(id) < shortest {
		return 0
	}
	least := 0
	for _, name := range groups {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || proc.Name(pid) != agentName {
			continue
		}
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), id) &&
			(least == 0 || pid < least) {
			least = pid
		}
	}
	return least
}

// DiskUsage implements env.DiskUser: the layer in which the container writes.
func (c *container) DiskUsage(ctx context.Context) (int64, error) {
	c.mu.Lock()
	name := c.name
	c.mu.Unlock()
	out, err := c.engine.run(ctx, nil, "container", "inspect", "--size", "--format", "{{.SizeRw}}", name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the size of container %s: %q", name, out)
	}
	return n, nil
}

// Mounts are the mounts of the container.
func (c *container) Mounts() []env.Mounted { return c.mounts.all }

// closeTime bounds how long closing waits for the engine.
const closeTime = 2 * time.Minute

// Close removes the container with its anonymous volumes.
func (c *container) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if err := c.remove(ctx); err != nil {
		return fmt.Errorf("close %s: remove container %s: %w; `tare clean` removes it once %s answers again",
			c.opts.Name, c.name, err, c.engine.name)
	}
	if c.stream != nil {
		c.stream.Close() // the client; its container is gone now
	}
	if c.empty {
		c.empty = false
		dropEmpty(ctx, c.engine)
	}
	if err := c.mounts.close(); err != nil {
		return fmt.Errorf("close %s: %w", c.opts.Name, err)
	}
	return nil
}

// remove removes the container, if there is one, and returns when it is gone.
func (c *container) remove(ctx context.Context) error {
	if c.name == "" {
		return nil
	}
	if err := c.engine.remove(ctx, c.name); err != nil {
		return err
	}
	c.name = ""
	return nil
}

// remove removes a container and returns when it is gone. It is no error if the container does not exist.
func (e engine) remove(ctx context.Context, name string) error {
	for {
		_, err := e.run(ctx, nil, "rm", "--force", "--volumes", name)
		switch {
		case err == nil || noSuch(err):
			return nil
		case !says(err, "already in progress", "being removed"):
			return err
		}
		// The engine is already removing it because of --rm, and refuses a second request.
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
