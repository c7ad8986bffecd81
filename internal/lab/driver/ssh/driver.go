// Package ssh is a machine reached through OpenSSH's own program, so that the user's configuration, keys, agent, jump
// hosts and known hosts work as usual.
//
// It is opinionated about identity and about stalls. A host whose key is not known is never measured. A machine that
// does not answer for up to two minutes is a measurement, not a broken connection.
package ssh

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/internal/lab/driver/folder"
	"tare/internal/lab/driver/remote"
	"tare/internal/lab/env"
	"tare/internal/measure/netpeer"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/sys/shell"
)

// Infos lists the drivers of this package.
func Infos() []env.Info {
	return []env.Info{{
		Name: "ssh", ArgDoc: "[USER@]HOST[:PORT]", ArgNeeds: true,
		Doc: "A machine reached with OpenSSH, with your own configuration and keys.",
		Settings: []env.Setting{
			{Name: "user", Doc: "User there; same as USER@ in the argument.", Names: env.NamesUser},
			{Name: "port", Doc: "Port; same as :PORT in the argument.", Check: checkPort},
			{Name: "identity", Doc: "Private key file, in the place of all others.", Check: checkFile},
			{Name: "config", Default: "your own", Doc: "OpenSSH configuration file.",
				Check: checkFile},
			{Name: "known_hosts", Default: "your own", Doc: "File of known host keys.",
				Check: checkFile},
			{Name: "host_key", Default: "known", Doc: "known: reject a host whose key is not known; new: store the " +
				"key of a new host, never a changed one.",
				Check: func(v string) error {
					if v != "known" && v != "new" {
						return fmt.Errorf("%q is not one of known, new", v)
					}
					return nil
				}},
			{Name: "options", Names: env.NamesOptions, Doc: "More OpenSSH options, as KEY=VALUE separated by " +
				"semicolons; allowed: " + strings.Join(allowed, ", ") + ".", Check: func(v string) error {
				_, err := parseOptions(v)
				return err
			}},
			{Name: "dir", Default: "/var/tmp, $TMPDIR, /tmp or $HOME",
				Doc: "Directory there for the agent and for file workloads.", Check: checkRemoteDir},
			{Name: "peer", Doc: "Address of this machine, such as 192.0.2.1, at which the other end of network " +
				"workloads then listens as well.",
				Check: checkPeer},
		},
		Mounts: []env.MountKind{folder.DirKind(false)},
		Driver: driver{},
		Nature: env.Nature{Arg: env.NamesAddress},
		Probe:  probe,
		Has:    has,
		Reach:  reach,
	}}
}

func checkPeer(v string) error {
	a, err := netip.ParseAddr(v)
	if err != nil || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" {
		return fmt.Errorf("%q is not a numeric address of this machine", v)
	}
	return nil
}

// reach tells whether the run's peer listens where the host reaches it. A tunnel of OpenSSH's would always reach it,
// but the figure would be that of its encryption.
func reach(s env.Spec) error {
	if s.Get("peer", "") == "" {
		return fmt.Errorf("%s cannot reach this machine's loopback; use peer=ADDRESS with an address of this machine "+
			"that it reaches, or server=ADDRESS of an iperf3 server with net.stream and net.udp", s.Name)
	}
	return nil
}

const install = "apt-get install openssh-client"

func probe(ctx context.Context) env.Status {
	p, err := proc.LookPath("ssh")
	if err != nil {
		return env.Status{Detail: "ssh is not installed", Remedy: install}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	said := proc.NewTail(4 << 10)
	cmd := proc.Command(ctx, p, "-V") // it prints to standard error
	cmd.Stderr = said
	if err := proc.Wait(cmd); err != nil {
		return env.Status{Detail: "ssh -V: " + err.Error(), Remedy: install}
	}
	return env.Status{OK: true, Detail: strings.TrimSpace(proc.Printable(said.Bytes()))}
}

func checkPort(v string) error {
	if n, err := strconv.ParseUint(v, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q is not a port from 1 to 65535", v)
	}
	return nil
}

func checkFile(v string) error {
	if !filepath.IsAbs(v) {
		return fmt.Errorf("%q is not an absolute path", v)
	}
	if strings.ContainsAny(v, "\"\n") {
		return fmt.Errorf("%q contains a character that OpenSSH's options do not allow", v)
	}
	return nil
}

func checkRemoteDir(v string) error {
	if !strings.HasPrefix(v, "/") || strings.ContainsAny(v, "\n") {
		return fmt.Errorf("%q is not an absolute path", v)
	}
	return nil
}

// allowed are the options that run no program here, forward nothing, and do not weaken the check of the host key. All
// other options must be in a configuration file.
var allowed = []string{
	"AddressFamily", "BindAddress", "BindInterface", "CertificateFile", "Ciphers", "Compression", "ConnectTimeout",
	"ConnectionAttempts", "HostKeyAlgorithms", "HostKeyAlias", "IPQoS", "KexAlgorithms", "MACs",
	"PreferredAuthentications",
	"ProxyJump", "PubkeyAcceptedAlgorithms", "RekeyLimit", "TCPKeepAlive",
}

// parseOptions converts KEY=VALUE;KEY=VALUE to arguments for -o, with OpenSSH's spelling of the keys.
func parseOptions(text string) ([]string, error) {
	var options []string
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ";") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("%q is not KEY=VALUE", part)
		}
		i := 0
		for i < len(allowed) && !strings.EqualFold(allowed[i], key) {
			i++
		}
		if i == len(allowed) {
			return nil, fmt.Errorf("option %q is not allowed; allowed are: %s; put it into a file and use that with "+
				"config=FILE", key, strings.Join(allowed, ", "))
		}
		options = append(options, allowed[i]+"="+value)
	}
	return options, nil
}

var (
	hostRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9_:%]([A-Za-z0-9_.:%-]{0,252})$`)
	})
	userRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.@\\+-]{0,127}$`)
	})
)

// address is the host to connect to; the user's configuration decides empty fields.
type address struct {
	user, host string
	port       int
}

// parseArg parses [USER@]HOST[:PORT]; an IPv6 address with a port is in brackets. No part can be taken for an option or
// reach a shell.
func parseArg(arg string) (a address, err error) {
	host := arg
	if i := strings.LastIndexByte(arg, '@'); i >= 0 {
		a.user, host = arg[:i], arg[i+1:]
		if !userRE().MatchString(a.user) {
			return a, fmt.Errorf("%q is not a user's name", a.user)
		}
	}
	port, hasPort := "", false
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, port, ok = strings.Cut(inner, "]"); !ok {
			return a, fmt.Errorf("%q has a [ without a ]", arg)
		}
		if port != "" {
			if port, hasPort = strings.CutPrefix(port, ":"); !hasPort {
				return a, fmt.Errorf("%q has something other than :PORT after the address", arg)
			}
		}
	} else if strings.Count(host, ":") == 1 {
		host, port, hasPort = strings.Cut(host, ":")
	}
	if hasPort {
		if err := checkPort(port); err != nil {
			return a, err
		}
		a.port, _ = strconv.Atoi(port)
	}
	if !hostRE().MatchString(host) {
		return a, fmt.Errorf("%q is not a host's name or address", host)
	}
	a.host = host
	return a, nil
}

type driver struct{}

// Open puts an agent on the host.
func (driver) Open(ctx context.Context, o env.Options) (env.Env, error) { return Open(ctx, o) }

// Command prepares words as one command on the host of a spec.
func Command(ctx context.Context, s *env.Spec, words ...string) (*proc.Cmd, error) {
	c, err := connection(s)
	if err != nil {
		return nil, err
	}
	return proc.Command(ctx, c.argv(words...)...), nil
}

// Open is the driver's, for machines that another driver starts or finds.
func Open(ctx context.Context, o env.Options) (env.Env, error) {
	c, err := connection(&o.Spec)
	if err != nil {
		return nil, &env.OpenError{Env: o.Name, Op: "read settings", Err: err, Remedy: "write ssh:[USER@]HOST[:PORT]"}
	}
	for _, file := range []string{"identity", "config"} {
		if f := o.Get(file, ""); f != "" {
			if _, err := os.Stat(f); err != nil {
				return nil, &env.OpenError{Env: o.Name, Op: "read setting " + file, Err: err,
					Remedy: "use an existing file"}
			}
		}
	}
	facts := record.Facts{Settings: maps.Clone(o.Settings), Extra: c.facts(ctx)}
	var peer netpeer.Place
	if v := o.Get("peer", ""); v != "" {
		if peer.Address, err = netip.ParseAddr(v); err != nil {
			return nil, &env.OpenError{Env: o.Name, Op: "read setting peer", Err: err}
		}
	}
	return remote.Open(ctx, remote.Target{
		Options: o, Argv: c.argv, PeerAt: peer, Dir: o.Get("dir", ""), Explain: c.explain, Facts: facts,
	})
}

// client is the command line of OpenSSH's program for one host.
type client struct {
	address
	flags []string
}

// connection makes the command line. Its options have priority over the user's configuration.
func connection(s *env.Spec) (*client, error) {
	a, err := parseArg(s.Arg)
	if err != nil {
		return nil, err
	}
	if u := s.Get("user", ""); u != "" {
		if a.user = u; !userRE().MatchString(u) {
			return nil, fmt.Errorf("%q is not a user's name", u)
		}
	}
	if p := s.Get("port", ""); p != "" {
		if err := checkPort(p); err != nil {
			return nil, err
		}
		a.port, _ = strconv.Atoi(p)
	}
	c := &client{address: a, flags: []string{"-T"}}
	if f := s.Get("config", ""); f != "" {
		c.flags = append(c.flags, "-F", f)
	}
	if a.user != "" {
		c.flags = append(c.flags, "-l", a.user)
	}
	if a.port != 0 {
		c.flags = append(c.flags, "-p", strconv.Itoa(a.port))
	}
	// OpenSSH uses the first value of an option, so the user's options come before the defaults.
	user, err := parseOptions(s.Get("options", ""))
	if err != nil {
		return nil, err
	}
	for _, o := range append(user, options(s)...) {
		c.flags = append(c.flags, "-o", o)
	}
	return c, nil
}

func options(s *env.Spec) []string {
	check := "yes"
	if s.Get("host_key", "known") == "new" {
		check = "accept-new"
	}
	all := []string{
		"BatchMode=yes", "StrictHostKeyChecking=" + check,
		// 15 s x 8: a machine that stalls is worth measuring, but one that is gone must be noticed at some time.
		"ServerAliveInterval=15", "ServerAliveCountMax=8", "ConnectTimeout=15", "Compression=no",
		// A shared connection would outlive the run, hold inherited pipes open and share its fate with other work.
		"ControlMaster=no", "ControlPath=none",
		"ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no", "RemoteCommand=none",
		"EscapeChar=none",
	}
	if f := s.Get("identity", ""); f != "" {
		all = append(all, "IdentityFile="+quoteFile(f), "IdentitiesOnly=yes")
	}
	if f := s.Get("known_hosts", ""); f != "" {
		all = append(all, "UserKnownHostsFile="+quoteFile(f), "GlobalKnownHostsFile=none")
	}
	return all
}

// quoteFile quotes a file name for OpenSSH's options, which are split at spaces and expand %.
func quoteFile(f string) string { return `"` + strings.ReplaceAll(f, "%", "%%") + `"` }

// argv returns the command line for words. sshd passes them to the user's login shell as one line.
func (c *client) argv(words ...string) []string {
	argv := append([]string{"ssh"}, c.flags...)
	return append(argv, "--", c.host, shell.Quote(words...))
}

// facts returns the effective configuration from ssh -G, restricted to the keys in told.
func (c *client) facts(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	argv := append(append([]string{"ssh", "-G"}, c.flags...), "--", c.host)
	out, err := proc.Run(ctx, nil, argv...)
	if err != nil {
		return nil // the connection will fail in the same way and say why
	}
	return parseConfig(out)
}

// told are the recorded keys of ssh -G: those that say where the connection leads, and what it costs.
var told = map[string]bool{"hostname": true, "port": true, "user": true, "proxyjump": true, "ciphers": true,
	"compression": true, "ipqos": true, "hostkeyalias": true}

func parseConfig(out []byte) map[string]string {
	facts := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && told[key] && len(value) < 4096 {
			facts["ssh."+key] = proc.Printable([]byte(value))
		}
	}
	return facts
}
