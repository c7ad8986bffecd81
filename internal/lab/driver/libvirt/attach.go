package libvirt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tare/internal/lab/driver/ssh"
	"tare/internal/lab/env"
	"tare/internal/record"
)

// settingSSH names the address of a domain that libvirt does not know one of.
const settingSSH = "ssh"

// sshSettings are those of the driver ssh that a domain takes.
var sshSettings = []string{"user", "port", "identity", "config", "known_hosts", "host_key", "options", "dir"}

func attachSettings() []env.Setting {
	all := []env.Setting{{Name: settingSSH, Default: "the address that libvirt knows",
		Doc: "Of a domain that exists: how ssh reaches it, [USER@]HOST[:PORT] or a name of your configuration."}}
	for _, s := range ssh.Infos()[0].Settings {
		if slices.Contains(sshSettings, s.Name) {
			s.Doc = "Of a domain that exists: as in the driver ssh. " + s.Doc
			all = append(all, s)
		}
	}
	return all
}

// attached is a domain that exists, entered by ssh. It stays as it is.
type attached struct {
	env.Env
	facts record.Facts
}

// Facts are those of the connection, and those of the domain's XML.
func (a *attached) Facts() record.Facts {
	f := a.Env.Facts()
	f.Hypervisor, f.Emulated = a.facts.Hypervisor, a.facts.Emulated
	f.Threads, f.MemoryBytes = a.facts.Threads, a.facts.MemoryBytes
	f.Settings = a.facts.Settings
	f.Extra = maps.Clone(f.Extra)
	if f.Extra == nil {
		f.Extra = map[string]string{}
	}
	maps.Copy(f.Extra, a.facts.Extra)
	return f
}

// Mounts implements env.Mounter.
func (a *attached) Mounts() []env.Mounted {
	if m, ok := a.Env.(env.Mounter); ok {
		return m.Mounts()
	}
	return nil
}

// Diagnose implements env.Diagnoser.
func (a *attached) Diagnose() []byte {
	if d, ok := a.Env.(env.Diagnoser); ok {
		return d.Diagnose()
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
		return fail(&env.OpenError{Op: "attach disk", Err: errors.New("a domain that exists is not changed"),
			Remedy: "cut the power of a micro-VM: libvirt, without a name"})
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
	address := o.Get(settingSSH, "")
	if address == "" {
		if address, err = v.address(ctx, o.Arg); err != nil {
			return fail(&env.OpenError{Op: "find the domain's address", Err: err,
				Remedy: "name it with ssh=[USER@]HOST[:PORT]"})
		}
	}
	a := &attached{facts: record.Facts{
		Hypervisor: "libvirt " + info.Type, Emulated: info.Type == typeQEMU, Threads: info.cpus(),
		MemoryBytes: info.memoryBytes(), Settings: maps.Clone(o.Settings), Extra: info.facts(),
	}}
	if a.facts.Settings == nil {
		a.facts.Settings = map[string]string{}
	}
	a.facts.Settings[settingURI], a.facts.Settings[settingSSH] = v.uri, address
	sum := sha256.Sum256([]byte(text))
	maps.Copy(a.facts.Extra, map[string]string{"libvirt.version": libvirt, "libvirt.uri": v.uri,
		"qemu.version": hypervisor, "domain.name": info.Name, "domain.xml.sha256": hex.EncodeToString(sum[:])})
	o.Spec = env.Spec{Name: o.Name, Driver: "ssh", Arg: address, Settings: map[string]string{}}
	for _, k := range sshSettings {
		if s, ok := a.facts.Settings[k]; ok {
			o.Settings[k] = s
		}
	}
	if a.Env, err = ssh.Infos()[0].Driver.Open(ctx, o); err != nil {
		return nil, err
	}
	return a, nil
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
