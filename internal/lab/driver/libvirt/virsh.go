package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// The connections that most machines have.
const (
	systemURI  = "qemu:///system"
	sessionURI = "qemu:///session"
)

const (
	installVirsh  = "install libvirt: apt-get install libvirt-daemon-system libvirt-clients"
	startLibvirtd = "systemctl start libvirtd (on newer systems: virtqemud), or name another one with uri="
)

// askTime bounds a question to libvirtd. It answers within milliseconds, except to the first question after its
// installation: it then starts each QEMU that there is, to see what it can do.
const askTime = 3 * time.Minute

// defaultURI is virsh's own default, without its search for other hypervisors.
func defaultURI() string {
	if uri := os.Getenv("LIBVIRT_DEFAULT_URI"); uri != "" {
		return uri
	}
	if os.Geteuid() == 0 {
		return systemURI
	}
	return sessionURI
}

// virsh is libvirt's client with one connection.
type virsh struct {
	uri string
	// waken lets the client start the user's own libvirtd, as it does by default.
	waken bool
}

func (v virsh) command(ctx context.Context, words ...string) *proc.Cmd {
	cmd := proc.Command(ctx, append([]string{"virsh", "-c", v.uri}, words...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if !v.waken {
		cmd.Env = append(cmd.Env, "LIBVIRT_AUTOSTART=0")
	}
	return cmd
}

// run runs a command of virsh and returns its output.
func (v virsh) run(ctx context.Context, words ...string) (string, error) {
	return v.feed(ctx, nil, words...)
}

func (v virsh) feed(ctx context.Context, stdin io.Reader, words ...string) (string, error) {
	ctx, cancel := proc.WithTimeout(ctx, askTime)
	defer cancel()
	out, err := proc.RunCmd(v.command(ctx, words...), stdin)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("libvirtd did not answer: %w", ctx.Err())
	}
	return string(out), err
}

// version asks for the versions of libvirt and its hypervisor.
func (v virsh) version(ctx context.Context) (libvirt, qemu string, err error) {
	out, err := v.run(ctx, "version", "--daemon")
	if err != nil {
		return "", "", err
	}
	libvirt, qemu = parseVersion(out)
	if qemu == "" {
		return "", "", fmt.Errorf("%s runs no QEMU: %q", v.uri, proc.Line(out))
	}
	return libvirt, qemu, nil
}

// parseVersion reads the output of virsh version --daemon.
func parseVersion(out string) (libvirt, qemu string) {
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		value = proc.Printable([]byte(value))
		switch key {
		case "Using library":
			if libvirt == "" {
				libvirt = strings.TrimPrefix(value, "libvirt ")
			}
		case "Running against daemon":
			libvirt = value
		case "Running hypervisor":
			qemu, _ = strings.CutPrefix(value, "QEMU ")
			if strings.Contains(qemu, " ") { // another hypervisor's name
				qemu = ""
			}
		}
	}
	return libvirt, qemu
}

// complaint is a message of virsh, with its meaning and remedy.
type complaint struct{ said, meaning, remedy string }

// complaints are searched in this order. Messages are asked for in English.
var complaints = []complaint{
	{"already exists with uuid", "a domain of this name exists already, and tare does not touch it",
		"look at it with virsh list --all, and destroy it by hand if nobody needs it"},
	{"failed to get domain", "there is no such domain", "virsh -c %u list --all shows which there are"},
	{"Domain not found", "there is no such domain", "virsh -c %u list --all shows which there are"},
	{"authentication unavailable", "libvirtd does not let this user in", "%p"},
	{"authentication failed", "libvirtd does not let this user in", "%p"},
	{"access denied", "libvirtd does not let this user in", "%p"},
	{"libvirt-sock': Permission denied", "libvirtd does not let this user in", "%p"},
	{"sock': Permission denied", "libvirtd does not let this user in", "%p"},
	{"Failed to connect socket", "libvirtd does not run", startLibvirtd},
	{"Cannot recv data", "libvirtd ended the connection", startLibvirtd},
	{"client socket is closed", "libvirtd ended the connection", startLibvirtd},
	{"End of file while reading data", "libvirtd ended the connection", startLibvirtd},
	{"no connection driver available", "libvirtd has no driver for this URI",
		"install it: apt-get install libvirt-daemon-system; or name another connection with uri="},
	{"could not get preferred machine for", "%k", "use type=qemu, which emulates the CPU and works everywhere"},
	{"domaintype=kvm", "%k", "use type=qemu, which emulates the CPU and works everywhere"},
	{"KVM is not available", "%k", "use type=qemu, which emulates the CPU and works everywhere"},
	{"failed to initialize kvm", "%k", "use type=qemu, which emulates the CPU and works everywhere"},
	{"Could not access KVM", "%k", "use type=qemu, which emulates the CPU and works everywhere"},
	{"does not support virt type 'kvm'", "%k", "use type=qemu, which emulates the CPU and works everywhere"},
	{"No space left on device", "the host's disk is full", "free some space, use a smaller disk=, or set TMPDIR"},
	{"Cannot access storage file", "QEMU may not read one of the machine's files",
		"its folder must be one that libvirt's QEMU can enter; set TMPDIR to another one"},
}

// explain turns an error of virsh into one with a remedy. Its output is the evidence.
func (v virsh) explain(op string, err error) *env.OpenError {
	x := &env.OpenError{Op: op, Err: err}
	if _, e := proc.LookPath("virsh"); e != nil {
		x.Err, x.Remedy = errors.New("virsh is not installed"), installVirsh
		return x
	}
	said := err.Error()
	if e, ok := errors.AsType[*proc.ExitError](err); ok {
		said = e.Stderr
		x.Evidence = []byte(e.Stderr)
		if last := lastError(said); last != "" {
			x.Err = errors.New(last)
		}
	}
	for _, c := range complaints {
		if !strings.Contains(said, c.said) {
			continue
		}
		fill := strings.NewReplacer("%u", v.uri, "%k", "KVM cannot be used by libvirt here",
			"%p", "join the group libvirt, or use your own libvirtd: uri="+sessionURI)
		x.Err = fmt.Errorf("%s (%w)", fill.Replace(c.meaning), x.Err)
		x.Remedy = fill.Replace(c.remedy)
		return x
	}
	x.Remedy = "try it by hand: virsh -c " + v.uri + " list --all"
	return x
}

// lastError is virsh's own statement of what went wrong: its lines that begin with "error:", joined.
func lastError(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		if e, ok := strings.CutPrefix(strings.TrimSpace(line), "error: "); ok {
			lines = append(lines, e)
		}
	}
	if len(lines) == 0 {
		return proc.Line(said)
	}
	return proc.Line(strings.Join(lines, ": "))
}

// absent tells whether an error means that there is no such domain.
func absent(err error) bool {
	e, ok := errors.AsType[*proc.ExitError](err)
	return ok && (strings.Contains(e.Stderr, "failed to get domain") || strings.Contains(e.Stderr,
		"Domain not found") ||
		strings.Contains(e.Stderr, "domain is not running"))
}

// checkURI accepts the URIs of libvirt's QEMU driver.
func checkURI(v string) error {
	u, err := url.Parse(v)
	if err != nil || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("%q is not a URI such as %s", v, systemURI)
	}
	if driver, _, _ := strings.Cut(u.Scheme, "+"); driver != "qemu" {
		return fmt.Errorf("%q is not a URI of libvirt's QEMU driver, such as %s", v, systemURI)
	}
	return nil
}

// here tells whether a URI's libvirtd is on this machine, so that both see the same files.
func here(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Host == "" && (u.Scheme == "qemu" || u.Scheme == "qemu+unix")
}

// system tells whether a URI leads to the machine's libvirtd and not to the user's own.
func system(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.Path == "/system"
}
