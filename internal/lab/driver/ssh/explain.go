package ssh

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tare/internal/sys/proc"
	"tare/internal/sys/shell"
)

// complaint is something that ssh or sshd says when a connection fails, with what it means.
type complaint struct {
	said    string
	meaning string
	// with %h for the host, here as one writes it to ssh, and %k for the host as it stands in known_hosts
	remedy string
}

// complaints are looked for in this order; the texts are OpenSSH's own and are not translated.
var complaints = []complaint{
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", "the host key of %h is not the one known",
		"if the host was set up anew: ssh-keygen -R '%k', then connect once by hand and compare the fingerprint"},
	{"Host key verification failed", "the host key of %h is not known",
		"connect once by hand with ssh %h and compare the fingerprint, or use the setting host_key=new"},
	{"UNPROTECTED PRIVATE KEY FILE", "the private key can be read by others", "chmod 600 the key"},
	{"Too many authentication failures", "%h refused after too many keys",
		"name the right key with the setting identity=FILE"},
	{"Permission denied (", "%h does not let this user in",
		"try ssh %h by hand; name the user with USER@ and the key with identity=FILE; keys with a passphrase need " +
			"ssh-agent"},
	{"Connection refused", "no SSH server answers there",
		"start sshd there, or name its port with the setting port=PORT"},
	{"Could not resolve hostname", "the host's name is not known", "correct the name, or put it into ~/.ssh/config"},
	{"No route to host", "there is no route to the host", "check that it runs and the network between"},
	{"Connection timed out", "the host does not answer", "check that it runs and that no firewall is in between"},
	{"Operation timed out", "the host does not answer", "check that it runs and that no firewall is in between"},
	{"Connection closed by", "the SSH server closed the connection",
		"look into its log; its limits MaxStartups and MaxSessions may be too low"},
	{"Connection reset by", "the SSH server closed the connection",
		"look into its log; its limits MaxStartups and MaxSessions may be too low"},
	{"Bad configuration option", "OpenSSH does not know an option",
		"correct the file or the setting options, or update OpenSSH"},
	{"Can't open user config file", "the configuration file cannot be read",
		"name an existing file with the setting config=FILE"},
}

// lost is ssh's own exit code, as opposed to that of the command it ran.
const lost = 255

// explain says what ssh's complaint means. Only a failure of ssh itself is looked at: the far side may print anything.
func (c *client) explain(err error, said string) (string, error) {
	if _, e := proc.LookPath("ssh"); e != nil {
		return install, fmt.Errorf("ssh is not installed: %w", err)
	}
	x, ok := errors.AsType[*proc.ExitError](err)
	if !ok || x.Code != lost {
		return "", nil
	}
	host, known := c.host, c.host
	if c.user != "" {
		host = c.user + "@" + host
	}
	if c.port != 0 && c.port != 22 {
		host = "-p " + strconv.Itoa(c.port) + " " + host
		known = "[" + c.host + "]:" + strconv.Itoa(c.port)
	}
	name, fill := strings.NewReplacer("%h", c.host), strings.NewReplacer("%h", host, "%k", known)
	for _, k := range complaints {
		if strings.Contains(said, k.said) {
			return fill.Replace(k.remedy), fmt.Errorf("%s: %w", name.Replace(k.meaning), err)
		}
	}
	return "try it by hand: " + shell.Quote(c.argv("uname", "-s", "-m")...), err
}
