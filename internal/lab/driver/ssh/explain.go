package ssh

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tare/internal/sys/proc"
	"tare/internal/sys/shell"
)

// complaint is a message of ssh or sshd for a failed connection, with an explanation.
type complaint struct {
	said    string
	meaning string
	// With %h for the host, as in the user's ssh command line, and %k for the host's name in known_hosts.
	remedy string
}

// complaints are searched in this order. The texts are OpenSSH's own, which are not translated.
var complaints = []complaint{
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", "the host key of %h is not the one known",
		"if the host was set up anew: ssh-keygen -R '%k', then connect once by hand and compare the fingerprint"},
	{"Host key verification failed", "the host key of %h is not known",
		"connect once by hand with ssh %h and compare the fingerprint, or use the setting host_key=new"},
	{"UNPROTECTED PRIVATE KEY FILE", "the private key can be read by others", "chmod 600 the key"},
	{"Too many authentication failures", "%h refused after too many keys",
		"choose the right key with the setting identity=FILE"},
	{"Permission denied (", "%h does not accept this user",
		"try ssh %h by hand; set the user with USER@ and the key with identity=FILE; keys with a passphrase need " +
			"ssh-agent"},
	{"Connection refused", "no SSH server listens there",
		"start sshd there, or set its port with the setting port=PORT"},
	{"Could not resolve hostname", "the host's name is not known", "correct the name, or put it into ~/.ssh/config"},
	{"No route to host", "there is no route to the host", "check that the host runs, and check the network"},
	{"Connection timed out", "the host does not answer", "check that the host runs, and check for firewalls"},
	{"Operation timed out", "the host does not answer", "check that the host runs, and check for firewalls"},
	{"Connection closed by", "the SSH server closed the connection",
		"see its log; its limits MaxStartups and MaxSessions may be too low"},
	{"Connection reset by", "the SSH server closed the connection",
		"see its log; its limits MaxStartups and MaxSessions may be too low"},
	{"Bad configuration option", "OpenSSH does not know an option",
		"correct the file or the setting options, or update OpenSSH"},
	{"Can't open user config file", "the configuration file cannot be read",
		"use an existing file with the setting config=FILE"},
}

// Lost is ssh's own exit code; other codes are those of the command that it ran.
const Lost = 255

// explain says what ssh's message means. It only looks at failures of ssh itself, because the far side may print
// anything.
func (c *client) explain(err error, said string) (string, error) {
	if _, e := proc.LookPath("ssh"); e != nil {
		return install, fmt.Errorf("ssh is not installed: %w", err)
	}
	x, ok := errors.AsType[*proc.ExitError](err)
	if !ok || x.Code != Lost {
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
