package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/sys/proc"
	"tare/internal/version"
)

// Transport is what ssh, vagrant, docker, lima and similar drivers have in common. It prepares a command in the
// environment, not yet started, and copies a file into it.
type Transport interface {
	Command(ctx context.Context, argv ...string) *proc.Cmd
	// Put writes an executable file of that name into a fresh private directory and returns its path there.
	Put(ctx context.Context, name string, r io.Reader) (path string, err error)
}

// PushOptions is what is known about the other side.
type PushOptions struct {
	// Platform is the platform if it is known; if empty, uname is asked.
	Platform Platform
	// ProbeTime bounds each command on the other side; 0 means 30 s.
	ProbeTime time.Duration
}

// Platform is an operating system and architecture in Go's names.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// PushError is the error of an environment that could not be given an agent.
type PushError struct {
	Op       string // the step that failed: "ask for the platform", "put the agent", "start the agent"
	Err      error
	Evidence []byte // output of the other side
}

func (e *PushError) Error() string { return e.Op + ": " + e.Err.Error() }

func (e *PushError) Unwrap() error { return e.Err }

// Push puts an agent into the environment behind t and checks that it runs there: it asks for the platform, chooses the
// agent, copies it and compares its build id. It returns the agent's path there and the platform, even with an error
// after the copy. The caller removes the copied file, also after an error with a path.
func Push(ctx context.Context, t Transport, agents env.Agents, o PushOptions) (path string, p Platform, err error) {
	if o.ProbeTime == 0 {
		o.ProbeTime = 30 * time.Second
	}
	if p = o.Platform; p == (Platform{}) {
		if p, err = probe(ctx, t, o.ProbeTime); err != nil {
			return "", p, err
		}
	}
	local, err := agents.Path(p.OS, p.Arch)
	if err != nil {
		return "", p, err
	}
	f, err := os.Open(local)
	if err != nil {
		return "", p, &PushError{Op: "read the agent", Err: err}
	}
	defer f.Close()
	name := "tare-agent"
	if p.OS == "windows" {
		name += ".exe"
	}
	if path, err = t.Put(ctx, name, f); err != nil {
		return path, p, &PushError{Op: "put the agent", Err: err}
	}
	return path, p, verify(ctx, t, path, p, o.ProbeTime)
}

// say runs a command in the environment and returns its output, bounded in time and length.
func say(ctx context.Context, t Transport, limit time.Duration, argv ...string) (string, []byte, error) {
	ctx, cancel := proc.WithTimeout(ctx, limit)
	defer cancel()
	out, err := proc.RunCmd(t.Command(ctx, argv...), nil)
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %v: %w", limit, context.Cause(ctx))
	}
	const most = 64 << 10
	evidence := out[max(0, len(out)-most):]
	if x, ok := errors.AsType[*proc.ExitError](err); ok {
		evidence = append(append([]byte(nil), evidence...), x.Stderr...)
	}
	return string(out[:min(len(out), most)]) + "\n" + string(out[max(0, len(out)-most):]), evidence, err
}

func probe(ctx context.Context, t Transport, limit time.Duration) (Platform, error) {
	const op = "ask for the platform"
	out, evidence, err := say(ctx, t, limit, "uname", "-s", "-m")
	p, perr := ParseUname(out)
	if perr == nil {
		return p, nil
	}
	if err == nil || ctx.Err() != nil {
		return p, &PushError{Op: op, Err: errors.Join(perr, ctx.Err()), Evidence: evidence}
	}
	// Windows has no uname; its own shell prints the processor.
	wout, _, werr := say(ctx, t, limit, "cmd", "/c", "echo %OS% %PROCESSOR_ARCHITECTURE%")
	if werr == nil {
		if p, ok := parseWindows(wout); ok {
			return p, nil
		}
	}
	return p, &PushError{Op: op, Err: fmt.Errorf("uname -s -m: %w", err), Evidence: evidence}
}

// systems maps the output of uname -s, in lower case, to GOOS.
var systems = map[string]string{"linux": "linux", "darwin": "darwin", "freebsd": "freebsd"}

// machines maps the output of uname -m to GOARCH.
var machines = map[string]string{"x86_64": "amd64", "amd64": "amd64", "x64": "amd64", "aarch64": "arm64",
	"arm64": "arm64", "riscv64": "riscv64"}

// small lists 32-bit machines, for which there is no agent. armv8l is 32-bit mode on a 64-bit processor.
var small = []string{"i386", "i486", "i586", "i686", "x86", "armv5", "armv6", "armv7", "armv8l", "arm"}

// ParseUname finds the output of `uname -s -m` among noise, such as a login banner.
func ParseUname(output string) (Platform, error) {
	var unknown string
	for line := range strings.Lines(output) {
		// Noise without a final newline, such as the escape sequence that sets a terminal's title, is glued to the
		// output.
		line = line[strings.LastIndexFunc(strings.TrimRight(line, "\r\n"), unicode.IsControl)+1:]
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		f = f[len(f)-2:]
		goos, known := systems[strings.ToLower(f[0])]
		// Cygwin and MSYS report Windows as CYGWIN_NT-10.0 and MINGW64_NT-10.0-22631.
		if !known && strings.Contains(f[0], "_NT-") {
			goos, known = "windows", true
		}
		if !known {
			continue
		}
		if goarch, ok := machines[strings.ToLower(f[1])]; ok {
			return Platform{goos, goarch}, nil
		}
		unknown = f[0] + " " + f[1]
		for _, s := range small {
			if strings.HasPrefix(f[1], s) {
				return Platform{},
					fmt.Errorf("%s is a 32-bit system; tare measures only 64-bit systems (amd64, arm64, riscv64)",
						unknown)
			}
		}
	}
	if unknown != "" {
		return Platform{}, fmt.Errorf("there is no agent for %.80q; there are agents for amd64, arm64 and riscv64",
			unknown)
	}
	if s := strings.TrimSpace(output); s != "" {
		return Platform{}, fmt.Errorf("uname -s -m printed %.80q, which is not a system known to tare", s)
	}
	return Platform{}, errors.New("uname -s -m printed nothing")
}

func parseWindows(output string) (Platform, bool) {
	for line := range strings.Lines(output) {
		if arch, ok := strings.CutPrefix(strings.TrimSpace(line), "Windows_NT "); ok {
			goarch, ok := machines[strings.ToLower(strings.TrimSpace(arch))]
			return Platform{"windows", goarch}, ok
		}
	}
	return Platform{}, false
}

// verify checks that the file at path is an agent of this build that runs there.
func verify(ctx context.Context, t Transport, path string, p Platform, limit time.Duration) error {
	const op = "start the agent"
	// The full program answers this like the agent; its own command "version" is the controller's.
	out, evidence, err := say(ctx, t, limit, path, "agent", "--version")
	if err != nil {
		if s := strings.ToLower(err.Error() + string(evidence)); strings.Contains(s, "permission denied") ||
			strings.Contains(s, "not permitted") {
			err = fmt.Errorf("%w; is %s on a file system mounted noexec? choose another directory with dir=", err, path)
		}
		return &PushError{Op: op, Err: err, Evidence: evidence}
	}
	build, goos, goarch, ok := wire.ParseVersionLine(out)
	switch {
	case !ok:
		err = fmt.Errorf("%s is not an agent: it printed no version line", path)
	case build != version.Build:
		err = fmt.Errorf("%s has build %.64q, and this tare has build %q; use agents made together with it", path,
			build, version.Build)
	case goos != p.OS || goarch != p.Arch:
		err = fmt.Errorf("%s is an agent for %s/%s, but the system is %s", path, goos, goarch, p)
	default:
		return nil
	}
	return &PushError{Op: op, Err: err, Evidence: evidence}
}
