package mount

import (
	"errors"
	"strings"
	"testing"

	"tare/internal/env"
	"tare/internal/guest/layout"
)

func vmRequest(settings map[string]string) Request {
	all := map[string]string{"server": serverVM}
	for k, v := range settings {
		all[k] = v
	}
	return Request{Spec: env.Spec{Name: "n", Driver: "nfs", Settings: all}}
}

func TestMachineThatServesIsPlanned(t *testing.T) {
	r := vmRequest(map[string]string{"vers": "4.1", "disk": "256MiB", "threads": "3", "async": "on"})
	if !ServedByVM(r.Spec) || ServedByVM(env.Spec{Driver: "nfs"}) {
		t.Error("which mounts another machine serves")
	}
	p, err := PlanVM(r, 7)
	if err != nil {
		t.Fatal(err)
	}
	c, s := p.Client.Order, p.Serve
	if c.Source != "10.64.7.1:/" || c.Link.Address != s.Serve.Client || s.Link.Address != "10.64.7.1" || c.Link.Hardware == s.Link.Hardware {
		t.Errorf("the two ends do not meet: %+v %+v, %+v %+v %+v", c, c.Link, s, s.Link, s.Serve)
	}
	for _, l := range []*layout.Link{c.Link, s.Link} {
		if len(l.Hardware) != len("52:54:00:74:00:00") || !strings.HasPrefix(l.Hardware, layout.LinkHardware) {
			t.Errorf("hardware address %q", l.Hardware)
		}
	}
	if s.Serve.Version != "4.1" || s.Serve.Threads != 3 || !s.Serve.Async || p.Disk != 256<<20 || p.Client.Network {
		t.Errorf("%+v %+v", p, s.Serve)
	}
	if p.Client.Mount.HostDir != "" {
		t.Errorf("the folder is on the host: %s", p.Client.Mount.HostDir)
	}
	if _, shown := p.Client.Mount.Settings["port"]; shown {
		t.Error("a port of the host is shown, and there is none")
	}
}

func TestMachineThatCannotServe(t *testing.T) {
	for want, settings := range map[string]map[string]string{
		"mount protocol":        {"vers": "3"},
		"does not run over UDP": {"proto": "udp"},
		"NFS-Ganesha's":         {"commit": "always"},
		"no port":               {"port": "2049"},
		"no setting":            {"colour": "red"},
		"number of threads":     {"threads": "0"},
	} {
		_, err := PlanVM(vmRequest(settings), 0)
		x, ok := errors.AsType[*env.OpenError](err)
		if !ok || !strings.Contains(x.Error(), want) || x.Remedy == "" {
			t.Errorf("%v: %v, want %q", settings, err, want)
		}
	}
	if _, err := PlanVM(vmRequest(nil), 256); err == nil {
		t.Error("there is a link 256")
	}
	usable(t, "nfs")
	x := failing(t, t.Context(), request(t, "nfs", "f", map[string]string{"threads": "4"}))
	if !strings.Contains(x.Error(), "server=vm") {
		t.Errorf("a setting of the second machine for Ganesha: %v", x)
	}
}
