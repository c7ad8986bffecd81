package mount

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
)

func vmRequest(settings map[string]string) Request {
	all := map[string]string{"server": serverVM}
	for k, v := range settings {
		all[k] = v
	}
	return Request{Spec: env.Spec{Name: "n", Driver: "nfs", Settings: all}, Link: 7}
}

func TestMachineThatServesIsPlanned(t *testing.T) {
	r := vmRequest(map[string]string{"vers": "4.1", "disk": "256MiB", "threads": "3", "async": "on"})
	if !ServedByVM(r.Spec) || ServedByVM(env.Spec{Driver: "nfs"}) {
		t.Error("which mounts another machine serves")
	}
	p, err := PlanVM(r)
	if err != nil {
		t.Fatal(err)
	}
	c, s := p.Client.Order, p.Serve
	if c.Source != "10.64.7.1:/" || c.Link.Address != s.Serve.Client || s.Link.Address != "10.64.7.1" ||
		c.Link.Hardware == s.Link.Hardware {
		t.Errorf("the two ends do not meet: %+v %+v, %+v %+v %+v", c, c.Link, s, s.Link, s.Serve)
	}
	for _, l := range []*guestabi.Link{c.Link, s.Link} {
		if len(l.Hardware) != len("52:54:00:74:00:00") || !strings.HasPrefix(l.Hardware, guestabi.LinkHardware) {
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

// Version 3 needs the mount protocol to find the folder; both ends know its port.
func TestMachineThatServesVersion3IsPlanned(t *testing.T) {
	p, err := PlanVM(vmRequest(map[string]string{"vers": "3", "nconnect": "4", "actimeo": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	c, s := p.Client, p.Serve.Serve
	if c.Order.Type != "nfs" || !slices.Contains(c.Modules, "nfsv3") || slices.Contains(c.Modules, "nfsv4") ||
		s.Version != "3" || s.MountPort == s.Port || s.MountPort == 0 {
		t.Errorf("%+v %+v", c, s)
	}
	for _, want := range []string{"vers=3", "mountvers=3", "mountproto=tcp", fmt.Sprintf("mountport=%d", s.MountPort),
		fmt.Sprintf("port=%d", s.Port), "nolock", "nconnect=4", "actimeo=0"} {
		if !slices.Contains(strings.Split(c.Order.Options, ","), want) {
			t.Errorf("option %s is not among %s", want, c.Order.Options)
		}
	}
}

func TestMachineThatCannotServe(t *testing.T) {
	for want, settings := range map[string]map[string]string{
		"over TCP":              {"vers": "3", "proto": "udp"},
		"does not run over UDP": {"proto": "udp"},
		"only with NFS-Ganesha": {"commit": "always"},
		"no port":               {"port": "2049"},
		"no setting":            {"colour": "red"},
		"number of threads":     {"threads": "0"},
	} {
		_, err := PlanVM(vmRequest(settings))
		x, ok := errors.AsType[*env.OpenError](err)
		if !ok || !strings.Contains(x.Error(), want) || x.Remedy == "" {
			t.Errorf("%v: %v, want %q", settings, err, want)
		}
	}
	far := vmRequest(nil)
	far.Link = 256
	if _, err := PlanVM(far); err == nil {
		t.Error("there is a link 256")
	}
	usable(t, "nfs")
	x := failing(t, t.Context(), request(t, "nfs", "f", map[string]string{"threads": "4"}))
	if !strings.Contains(x.Error(), "server=vm") {
		t.Errorf("a setting of the second machine for Ganesha: %v", x)
	}
}
