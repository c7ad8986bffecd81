package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"tare/internal/sys/proc"
)

// engine is a container engine's client program, with the options that select its daemon.
type engine struct {
	name   string   // "docker" or "podman": the program's name
	global []string // options before the subcommand
}

// newEngine returns the engine with that name. host is the daemon's address in the form of the client's own option; it
// may be empty.
func newEngine(name, host string) engine {
	e := engine{name: name}
	if host != "" {
		option := map[string]string{"docker": "--host", "podman": "--url"}[name]
		e.global = []string{option, host}
	}
	return e
}

// errNotInstalled is the error of a machine without the engine's client.
var errNotInstalled = errors.New("not installed")

// argv is the command line of one call.
func (e engine) argv(args ...string) []string {
	return append(append([]string{e.name}, e.global...), args...)
}

// run makes one call and returns its standard output.
func (e engine) run(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	out, err := proc.Run(ctx, stdin, e.argv(args...)...)
	if err != nil && ctx.Err() != nil {
		// The client was interrupted, so its output explains nothing.
		return out, fmt.Errorf("%s %s: %w", e.name, args[0], context.Cause(ctx))
	}
	return out, err
}

// finish is run for calls that must not be interrupted, because their result would then be unknown. It goes on when ctx
// is done, for a bounded time.
func (e engine) finish(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return e.run(ctx, stdin, args...)
}

// info returns the engine's description of itself. It fails if the daemon does not answer.
func (e engine) info(ctx context.Context) (engineInfo, error) {
	if _, err := proc.LookPath(e.name); err != nil {
		return engineInfo{}, fmt.Errorf("%s is %w", e.name, errNotInstalled)
	}
	out, err := e.run(ctx, nil, "info", "--format", "{{json .}}")
	if err != nil {
		return engineInfo{}, err
	}
	return parseInfo(e.name, out)
}

// noSuch tells whether the engine reported that the container or image does not exist.
func noSuch(err error) bool {
	return says(err, "no such container", "no container with", "no such image", "image not known", "no such object")
}

// says tells whether the engine's standard error contains one of the texts, ignoring case.
func says(err error, texts ...string) bool {
	x, ok := errors.AsType[*proc.ExitError](err)
	if !ok {
		return false
	}
	said := strings.ToLower(x.Stderr)
	for _, t := range texts {
		if strings.Contains(said, t) {
			return true
		}
	}
	return false
}

// install is the remedy for a missing client.
func (e engine) install() string {
	pkg := map[string]string{"docker": "docker.io"}[e.name]
	if pkg == "" {
		pkg = e.name
	}
	return "apt-get install " + pkg
}

// startIt is the remedy for a daemon that does not answer.
func (e engine) startIt() string {
	if e.name == "podman" {
		return "run `podman info` to see why podman does not answer"
	}
	return "start it with `systemctl start docker`, or name another daemon with host=unix:///... or DOCKER_HOST"
}

// remedies are the remedies for messages of an engine; the first match counts.
var remedies = []struct {
	says   func() *regexp.Regexp
	remedy string
}{
	{said(`permission denied while trying to connect`),
		"run tare as root, or join the group `docker` and log in again"},
	{said(`setrlimit|setting rlimit`), "this machine does not allow raising limits; set them to allowed values: " +
		"ulimit=nofile=1024:1024,nproc=1024:1024"},
	{said(`hybrid mode not supported`),
		"this OCI runtime does not support the machine's cgroups; choose another one: runtime=runc"},
	{said(`\bcni\b|netavark|aardvark`),
		"the engine's default network does not work here; most workloads need no network: network=none"},
	{said(`network\b.* not found`), "`docker network ls` lists the networks; network=none needs none"},
	{said(`exec format error`), "the machine cannot run this image's architecture; choose another with " +
		"platform=linux/ARCH, or install qemu-user-static"},
	{said(`exec \S*tare-agent: no such file`),
		"the agent needs a C library, which the image lacks; build tare with " +
			"CGO_ENABLED=0, as `make build` does"},
	{said(`runtime specified|invalid runtime name|(default )?oci runtime .* not found`),
		"`docker info` lists the runtimes"},
	{said(`no such container|no container with`), "`docker ps` lists the running containers"},
	{said(`manifest unknown`), "the registry has no image with that name; check its spelling"},
	{said(`pull access denied`),
		"there is no public image with that name; check its spelling, or log in to its registry"},
	{said(`short-name`), "podman needs the full name here, such as docker.io/library/IMAGE"},
	{said(`read-only`), "the container's root is read-only; set dir= to a folder of a writable volume"},
}

// said returns an expression that finds words, ignoring case. It is compiled on first use and not whenever tare starts.
func said(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)` + pattern) })
}

// remedy says what the user can do about an engine's error; "" if that is not known.
func (e engine) remedy(err error) string {
	if errors.Is(err, errNotInstalled) {
		return e.install()
	}
	if says(err, "cannot connect to", "is the docker daemon running", "unable to connect to", "error during connect") {
		return e.startIt()
	}
	x, ok := errors.AsType[*proc.ExitError](err)
	if !ok {
		return ""
	}
	for _, r := range remedies {
		if r.says().MatchString(x.Stderr) {
			return strings.ReplaceAll(r.remedy, "`docker", "`"+e.name)
		}
	}
	return ""
}
