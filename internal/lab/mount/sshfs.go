package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
	"tare/internal/suggest"
	"tare/internal/sys/proc"
)

const sshfsRemedy = "install them: apt-get install openssh-server openssh-client sshfs"

func kindSSHFS() kind {
	seconds := func(v string) error { return number(0, 1e6, "a time in whole seconds")(v) }
	return kind{env.MountKind{
		Name: "sshfs",
		Doc: "sshfs in the guest, OpenSSH's SFTP server on the host; fsync reaches the host's file system; " +
			"attributes and names are cached for seconds.",
		Shared: true,
		Probe:  probeSSHFS,
		Settings: []env.Setting{
			settingDir(),
			settingPort(),
			{Name: "dir_cache", Default: "on", Doc: "on lets sshfs cache names, attributes and targets of links.",
				Check: onOff()},
			{Name: "dcache_timeout", Default: "20", Doc: "How long sshfs keeps its cache, seconds.", Check: seconds},
			{Name: "attr_timeout", Default: "1", Doc: "How long the guest's kernel caches attributes, seconds.",
				Check: seconds},
			{Name: "entry_timeout", Default: "1", Doc: "How long the guest's kernel caches names, seconds.",
				Check: seconds},
			{Name: "sync", Default: "off",
				Doc: "on waits for each write (sshfs_sync); off collects errors until close or fsync.", Check: onOff()},
			{Name: "kernel_cache", Default: "off",
				Doc: "on keeps file contents in the guest's page cache across opens.", Check: onOff()},
			{Name: "ciphers", Default: "auto",
				Doc: "The cipher, such as aes128-gcm@openssh.com; auto is OpenSSH's choice.", Check: checkCiphers},
			{Name: "compression", Default: "off", Doc: "on compresses the data sent.", Check: onOff()},
		},
	}, serveSSHFS}
}

var ciphersRE = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z][a-z0-9-]*(@[a-z0-9.]+)?(,[a-z][a-z0-9-]*(@[a-z0-9.]+)?)*$`)
})

func checkCiphers(v string) error {
	if len(v) > 200 || !ciphersRE().MatchString(v) {
		return fmt.Errorf("%q is not a list of ciphers such as aes128-gcm@openssh.com,aes256-ctr", v)
	}
	return nil
}

// knownCiphers rejects a cipher that OpenSSH does not have. sshd would end with an error at its start.
func knownCiphers(ctx context.Context, ssh, list string) error {
	if list == "auto" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	out, err := proc.Run(ctx, nil, ssh, "-Q", "cipher")
	if err != nil {
		return nil // not OpenSSH, or too old to list ciphers: sshd will check
	}
	known := strings.Fields(string(out))
	for _, c := range strings.Split(list, ",") {
		if !slices.Contains(known, c) {
			return fmt.Errorf("setting ciphers: there is no cipher %q in OpenSSH%s", c, suggest.DidYouMean(c, known))
		}
	}
	return nil
}

func probeSSHFS(ctx context.Context) env.Status {
	for _, name := range []string{"sshd", "ssh", "ssh-keygen", "sshfs"} {
		if _, err := proc.LookPath(name); err != nil {
			return env.Status{Detail: name + " is not installed", Remedy: sshfsRemedy}
		}
	}
	_, version, err := programVersion(ctx, "sshfs", "--version")
	if err != nil {
		return env.Status{Detail: err.Error(), Remedy: sshfsRemedy}
	}
	return env.Status{OK: true, Detail: "sshfs " + version + ", OpenSSH"}
}

// sshdConfig makes the server's configuration: one user, one key, the SFTP server and nothing else. The SFTP server is
// the one built into sshd, which has the same code as sftp-server; the user's login shell would have to start a
// separate one.
func sshdConfig(dir, user string, port int, ciphers string) (string, error) {
	// Quotes, backslashes and percent signs have a meaning even between quotes.
	if err := plain(dir, "\t\"'\\%#"); err != nil {
		return "", err
	}
	lines := []string{
		"ListenAddress " + address(port),
		`HostKey "` + path.Join(dir, "host_key") + `"`,
		"PidFile none",
		`AuthorizedKeysFile "` + path.Join(dir, "authorized_keys") + `"`,
		// The folder is private, but its parents, such as /tmp, may be writable by everybody.
		"StrictModes no",
		"AllowUsers " + user,
		"PermitRootLogin prohibit-password",
		"AuthenticationMethods publickey",
		"PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
		"UsePAM no",
		"UseDNS no",
		"DisableForwarding yes",
		"PermitTTY no",
		"PermitUserRC no",
		"PrintMotd no",
		"LogLevel INFO",
		"Subsystem sftp internal-sftp",
		"ForceCommand internal-sftp",
	}
	if ciphers != "auto" {
		lines = append(lines, "Ciphers "+ciphers)
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// sshConfig makes the client's configuration for the host called tare.
func sshConfig(dir, host, user string, port int, compression bool, ciphers string) string {
	lines := []string{
		"Host tare",
		"HostName " + host,
		"Port " + strconv.Itoa(port),
		"User " + user,
		`IdentityFile "` + path.Join(dir, "key") + `"`,
		"IdentitiesOnly yes",
		"IdentityAgent none",
		`UserKnownHostsFile "` + path.Join(dir, "known_hosts") + `"`,
		"GlobalKnownHostsFile none",
		"StrictHostKeyChecking yes",
		"BatchMode yes",
		"ForwardX11 no",
		"Compression " + map[bool]string{true: "yes", false: "no"}[compression],
	}
	if ciphers != "auto" {
		lines = append(lines, "Ciphers "+ciphers)
	}
	return strings.Join(lines, "\n") + "\n"
}

// hostAlias is the server's name in known_hosts for a client that connects to host and port.
func hostAlias(host string, port int) string { return "[" + host + "]:" + strconv.Itoa(port) }

// separation is the empty directory that sshd, as root, uses for privilege separation. Packages make it when their
// service starts, so a system without that service lacks it.
const separation = "/run/sshd"

func serveSSHFS(ctx context.Context, j *job) (*Served, error) {
	j.op, j.remedy = "find OpenSSH and sshfs", sshfsRemedy
	programs := map[string]string{}
	for _, name := range []string{"sshd", "ssh", "ssh-keygen", "sshfs"} {
		path, err := proc.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("%s is not installed", name)
		}
		programs[name] = path
	}
	j.op, j.remedy = "read settings", "ssh -Q cipher lists the ciphers of this machine's OpenSSH, which both sides use"
	if err := knownCiphers(ctx, programs["ssh"], j.get("ciphers")); err != nil {
		return nil, err
	}
	user, err := userName()
	if err != nil {
		return nil, err
	}
	j.op, j.remedy = "write the SSH server's configuration", moreRoom
	if isRoot() {
		if err := os.Mkdir(separation, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	if err := plain(j.Folder, ""); err != nil {
		return nil, err // the order to the guest is text
	}
	if err := j.makeKeys(ctx, programs["ssh-keygen"]); err != nil {
		return nil, err
	}
	j.op, j.remedy = "start sshd", "see the server's log in the evidence"
	var argv []string
	var greeting sftpGreeting
	d, ports, err := j.listen(ctx, 1, func(ports []int) (*daemon, func(context.Context) error, error) {
		config, err := sshdConfig(j.dir, user, ports[0], j.get("ciphers"))
		if err == nil {
			err = j.write("sshd_config", config)
		}
		if err == nil {
			err = j.trust("known_hosts", loopback, ports[0])
		}
		if err == nil {
			err = j.write("ssh_config", sshConfig(j.dir, loopback, user, ports[0], j.on("compression"),
				j.get("ciphers")))
		}
		if err != nil {
			return nil, nil, err
		}
		// -e sends the log to standard error, where we read it; -D alone does not.
		argv = []string{programs["sshd"], "-D", "-e", "-f", j.file("sshd_config")}
		d, err := launch(argv, "", nil)
		return d, func(ctx context.Context) error {
			greeting, err = greetSFTP(ctx, programs["ssh"], j.file("ssh_config"))
			return err
		}, err
	})
	if _, refused := errors.AsType[*loginError](err); refused {
		j.remedy += "; an account that is locked (! in /etc/shadow) cannot log in without PAM: usermod -p '*' " + user +
			" unlocks it for keys only"
	}
	if err != nil {
		return nil, err
	}
	order, err := j.sshfsOrder(programs, user, ports[0])
	if err != nil {
		return nil, err
	}
	server := "OpenSSH " + greeting.version + ", SFTP " + strconv.Itoa(greeting.protocol)
	if !greeting.fsync {
		server += " without fsync"
	}
	return &Served{
		Mount: record.Mount{Server: server, Command: argv}, Order: order,
		Modules: []string{"fuse"}, Programs: []string{programs["sshfs"], programs["ssh"]}, Network: true,
		Diagnose: d.diagnose, Life: d.life, Pid: d.pid,
	}, nil
}

// makeKeys makes the key pairs of the server and of the user.
func (j *job) makeKeys(ctx context.Context, keygen string) error {
	for _, name := range []string{"host_key", "key"} {
		if _, err := proc.Run(ctx, nil, keygen, "-q", "-t", "ed25519", "-N", "", "-C", "tare", "-f",
			j.file(name)); err != nil {
			return err
		}
	}
	public, err := os.ReadFile(j.file("key.pub"))
	if err != nil {
		return err
	}
	return j.write("authorized_keys", "restrict "+string(public))
}

// trust writes a known_hosts file with the server's key for one address.
func (j *job) trust(name, host string, port int) error {
	public, err := os.ReadFile(j.file("host_key.pub"))
	if err != nil {
		return err
	}
	return j.write(name, hostAlias(host, port)+" "+string(public))
}

// sshfsOrder is the agent's part in the guest. The guest's SSH knows only this server's key.
func (j *job) sshfsOrder(programs map[string]string, user string, port int) (*guestabi.Mount, error) {
	dir := "/etc/tare/" + j.Name
	if err := j.trust("known_hosts.guest", guestabi.HostAddress, port); err != nil {
		return nil, err
	}
	files := guestUsers()
	for _, f := range []struct{ here, there string }{{"key", "key"}, {"known_hosts.guest", "known_hosts"}} {
		data, err := os.ReadFile(j.file(f.here))
		if err != nil {
			return nil, err
		}
		files = append(files, guestabi.File{Path: path.Join(dir, f.there), Mode: 0o600, Data: data})
	}
	config := sshConfig(dir, guestabi.HostAddress, user, port, j.on("compression"), j.get("ciphers"))
	files = append(files, guestabi.File{Path: path.Join(dir, "ssh_config"), Mode: 0o600, Data: []byte(config)})
	options := []string{
		"ssh_command=" + programs["ssh"], "dir_cache=" + map[bool]string{true: "yes", false: "no"}[j.on("dir_cache")],
		"attr_timeout=" + j.get("attr_timeout"), "entry_timeout=" + j.get("entry_timeout"),
	}
	if j.on("dir_cache") {
		options = append(options, "dcache_timeout="+j.get("dcache_timeout"))
	}
	if j.on("sync") {
		options = append(options, "sshfs_sync")
	}
	if j.on("kernel_cache") {
		options = append(options, "kernel_cache")
	}
	m := &guestabi.Mount{
		Dir: j.get("dir"), Files: files,
		Command: []string{programs["sshfs"], "-f", "-F", path.Join(dir, "ssh_config"), "-o", strings.Join(options, ","),
			"tare:" + j.Folder, j.get("dir")},
	}
	if err := plain(programs["ssh"], ", \t\\"); err != nil {
		return nil, err
	}
	return m, nil
}
