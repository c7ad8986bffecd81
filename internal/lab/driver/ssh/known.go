package ssh

import (
	"context"
	"net"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// has tells whether the host of a spec exists: the user's configuration has it, or its name resolves. It does not
// connect. So a plan may name a host that only some users have and skip it for others, without contacting anybody.
func has(ctx context.Context, s env.Spec) env.Status {
	c, err := connection(&s)
	if err != nil {
		return env.Status{OK: true} // opening has the better message
	}
	argv := append(append([]string{"ssh", "-G"}, c.flags...), "--", c.host)
	out, err := proc.Run(ctx, nil, argv...)
	if err != nil {
		return env.Status{OK: true}
	}
	host, led := effectiveHost(string(out), c.host)
	if led {
		return env.Status{OK: true}
	}
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		return env.Status{Detail: "there is no host " + c.host, Remedy: "give it a Host entry in ~/.ssh/config"}
	}
	return env.Status{OK: true}
}

// effectiveHost reads the output of `ssh -G`, a keyword in lower case and its value on each line: the name to connect
// to, and whether the configuration says how to get there.
func effectiveHost(config, host string) (name string, led bool) {
	name = host
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "hostname":
			led = led || value != host
			name = value
		case "proxyjump", "proxycommand":
			led = led || value != "none"
		}
	}
	return name, led
}
