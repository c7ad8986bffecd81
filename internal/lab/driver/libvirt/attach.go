package libvirt

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"tare/internal/lab/driver/serial"
	"tare/internal/lab/driver/ssh"
	"tare/internal/lab/env"
	"tare/internal/record"
)

const (
	// settingSSH names the address of a domain that libvirt does not know one of.
	settingSSH = "ssh"
	// settingSerial is the serial port of a domain that boots tare's medium.
	settingSerial = "serial"
	settingWait   = "wait"
)

// sshSettings are those of the driver ssh that a domain takes.
var sshSettings = []string{"user", "port", "identity", "config", "known_hosts", "host_key", "options", "dir"}

func attachSettings() []env.Setting {
	all := []env.Setting{
		{Name: settingSSH, Default: "the address that libvirt knows",
			Doc: "Of a domain that exists: how ssh reaches it, [USER@]HOST[:PORT] or a name of your configuration."},
		{Name: settingSerial, Default: "none", Doc: "Of a domain that boots the medium of tare guest media: the " +
			"number of its serial port, 0 for the first, in the place of ssh.",
			Check: env.OneOf("0", "1", "2", "3")},
	}
	take := func(i env.Info, names ...string) {
		for _, s := range i.Settings {
			if slices.Contains(names, s.Name) {
				s.Doc = "Of a domain that exists: as in the driver " + i.Name + ". " + s.Doc
				all = append(all, s)
			}
		}
	}
	take(serial.Infos()[0], settingWait)
	take(ssh.Infos()[0], sshSettings...)
	return all
}

// checkWay says which settings of a domain that exists exclude each other.
func checkWay(s *env.Spec) error {
	if _, ok := s.Settings[settingSerial]; !ok {
		if _, ok := s.Settings[settingWait]; ok {
			return fmt.Errorf("%s= works only with a domain's serial port; add %s=0", settingWait,
				settingSerial)
		}
		return nil
	}
	for _, k := range append([]string{settingSSH}, sshSettings...) {
		if _, ok := s.Settings[k]; ok {
			return fmt.Errorf("%s= works only over ssh; leave it out, or leave out %s=", k, settingSerial)
		}
	}
	return nil
}

// attach enters a domain that runs.
func attach(ctx context.Context, v virsh, o env.Options) (env.Env, error) {
	fail := func(x *env.OpenError) (env.Env, error) {
		x.Env = o.Name
		if ctx.Err() != nil {
			x.Err = fmt.Errorf("%w: %w", ctx.Err(), x.Err)
		}
		return nil, x
	}
	if o.Scratch != "" {
		return fail(&env.OpenError{Op: "attach disk", Err: errors.New("tare does not change an existing domain"),
			Remedy: "use libvirt without a domain name: tare then makes a micro-VM"})
	}
	libvirt, hypervisor, err := v.version(ctx)
	if err != nil {
		return fail(v.explain("ask libvirtd", err))
	}
	if x := v.running(ctx, o.Arg); x != nil {
		return fail(x)
	}
	text, err := v.run(ctx, "dumpxml", "--domain", o.Arg)
	if err != nil {
		return fail(v.explain("read domain", err))
	}
	info, err := parseDomain(text)
	if err != nil {
		return fail(&env.OpenError{Op: "read domain", Err: err, Remedy: "look at virsh dumpxml " + o.Arg})
	}
	enter, way := ssh.Infos()[0].Driver, env.Spec{Name: o.Name, Driver: "ssh", Arg: o.Get(settingSSH, "")}
	if port := o.Get(settingSerial, ""); port != "" {
		enter, way.Driver = serial.Infos()[0].Driver, "serial"
		var x *env.OpenError
		if way.Arg, x = info.line(port, v, o); x != nil {
			return fail(x)
		}
	} else if way.Arg == "" {
		if way.Arg, err = v.address(ctx, o.Arg); err != nil {
			return fail(&env.OpenError{Op: "find the domain's address", Err: err,
				Remedy: "name it with ssh=[USER@]HOST[:PORT]; a domain that boots tare's medium is entered by its " +
					"serial port with serial=0"})
		}
	}
	facts := record.Facts{
		Hypervisor: "libvirt " + info.Type, Emulated: info.Type == typeQEMU, Threads: info.cpus(),
		MemoryBytes: info.memoryBytes(), Settings: maps.Clone(o.Settings), Extra: info.facts(),
	}
	if facts.Settings == nil {
		facts.Settings = map[string]string{}
	}
	facts.Settings[settingURI], facts.Settings[way.Driver] = v.uri, cmp.Or(o.Get(settingSerial, ""), way.Arg)
	sum := sha256.Sum256([]byte(text))
	maps.Copy(facts.Extra, map[string]string{"libvirt.version": libvirt, "libvirt.uri": v.uri,
		"qemu.version": hypervisor, "domain.name": info.Name, "domain.xml.sha256": hex.EncodeToString(sum[:])})
	way.Settings = map[string]string{}
	for _, k := range append([]string{settingWait}, sshSettings...) {
		if s, ok := facts.Settings[k]; ok {
			way.Settings[k] = s
		}
	}
	o.Spec = way
	e, err := enter.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return env.Known(e, facts), nil
}

// line is where a serial port of the domain ends on this machine, in the words of the driver serial.
func (d *domainInfo) line(port string, v virsh, o env.Options) (string, *env.OpenError) {
	wrong := func(remedy, format string, args ...any) (string, *env.OpenError) {
		return "", &env.OpenError{Op: "find the serial port", Err: fmt.Errorf(format, args...), Remedy: remedy}
	}
	give := fmt.Sprintf("give it one (virsh -c %s edit %s): <serial type='unix'><source mode='bind' path='/run/"+
		"%[2]s.serial'/></serial>, and boot it from the medium of tare guest media", v.uri, o.Arg)
	switch {
	case len(o.Mounts) > 0:
		return wrong("leave out the mounts, or let tare make a machine: libvirt, without a name",
			"a domain that boots tare's medium has no directories of a user's")
	case !here(v.uri):
		return wrong("run tare on that machine", "%s is another machine's libvirtd, and the serial port ends there",
			v.uri)
	}
	for i, s := range d.Devices.Serials {
		if cmp.Or(s.Target.Port, strconv.Itoa(i)) != port {
			continue
		}
		switch {
		case s.Type == "unix" && s.Source.Mode != "connect" && s.Source.Path != "", s.Type == "pty" &&
			s.Source.Path != "":
			return s.Source.Path, nil
		case s.Type == "tcp" && s.Source.Mode == "bind":
			host := s.Source.Host
			if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
				host = "127.0.0.1"
			}
			return "tcp:" + net.JoinHostPort(host, s.Source.Service), nil
		}
		return wrong(give, "serial port %s of domain %s is of type %s, to which nobody can connect", port, o.Arg,
			strings.TrimSpace(s.Type+" "+s.Source.Mode))
	}
	return wrong(give, "domain %s has no serial port %s", o.Arg, port)
}

// address asks for the domain's address: the leases of libvirt's networks, the guest's agent, the host's ARP table.
func (v virsh) address(ctx context.Context, domain string) (string, error) {
	var first error
	for _, source := range []string{"lease", "agent", "arp"} {
		out, err := v.run(ctx, "domifaddr", "--domain", domain, "--source", source)
		if all := parseAddresses(out); err == nil && len(all) > 0 {
			return all[0].String(), nil
		}
		if err != nil && first == nil {
			first = err
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	if first != nil {
		return "", fmt.Errorf("libvirt knows no address of %s: %w", domain, first)
	}
	return "", fmt.Errorf("libvirt knows no address of %s", domain)
}

// facts are those of a domain that tare has made, as libvirtd reports it.
func (d *domain) facts(ctx context.Context) (map[string]string, error) {
	text, err := d.run(ctx, "dumpxml", d.uuid)
	if err != nil {
		return nil, err
	}
	info, err := parseDomain(text)
	if err != nil {
		return nil, err
	}
	return info.facts(), nil
}
