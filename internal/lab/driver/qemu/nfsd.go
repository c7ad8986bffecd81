package qemu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/lab/mount"
	"tare/internal/measure/guestabi"
)

// serverSettings has the needs of a serving machine that no setting provides.
type serverSettings struct {
	modules []string
	link    *link
}

// extras are the needs of this boot's machine besides its settings.
func (b *boot) extras() extras {
	x := b.shares.extras()
	x.peer = b.Peer && reach(b.Spec) == nil
	x.group = b.group
	if b.network != nil {
		x.card = b.network.card
	} else {
		x.network = x.network || x.peer
	}
	if b.second != nil {
		x.links = append(x.links, b.second.link)
	}
	return x
}

// secondVM is a running machine that serves a mount of another one. It belongs to the other's environment: it has the
// run's name, its files are below the mount's directory, and it ends with the mount.
type secondVM struct {
	vm     *vm
	agent  *deploy.Conn
	order  *guestabi.Mount // already done by its agent
	link   *link           // the end of the machine that mounts
	theirs *link
}

// secondMemory is enough for a server to cache what a micro-VM's workloads write.
const secondMemory = "512MiB"

// passedOn are the settings that both machines have in common: another accelerator or kernel would change the
// comparison.
var passedOn = []string{"accel", "arch", "machine", "kernel", "cpu", "boot", "sandbox"}

// serveByVM boots a second machine whose kernel serves the mount. A socket pair connects the two. Only the two QEMU
// processes have it, so the host and its users cannot reach that network.
func (d driver) serveByVM(ctx context.Context, o env.Options, r mount.Request) (s readyMount, err error) {
	plan, err := mount.PlanVM(r)
	if err != nil {
		return readyMount{}, err
	}
	sv := &secondVM{order: plan.Serve}
	op, evidence := "connect the two machines", []byte(nil)
	defer func() {
		if err == nil {
			return
		}
		if sv.vm != nil {
			evidence = append(evidence, sv.vm.Diagnose()...)
		}
		err = &env.OpenError{
			Env: r.Name, Op: op, Err: errors.Join(err, sv.close()), Evidence: evidence,
			Remedy: "the evidence is from the serving machine; use server=ganesha, or a kernel with nfsd: " +
				"kernel=generic",
		}
	}()
	if sv.link, sv.theirs, err = newLink(plan.Client.Order.Link.Hardware, plan.Serve.Link.Hardware); err != nil {
		return readyMount{}, err
	}
	op = "boot the serving machine"
	sv.vm, err = d.bootSecond(ctx, o, r, plan, sv.theirs)
	if x, ok := errors.AsType[*env.OpenError](err); ok {
		evidence = x.Evidence
	}
	if err != nil {
		return readyMount{}, err
	}
	op = "attach to the serving machine"
	if sv.agent, err = deploy.Attach(ctx, sv.vm, o.RunID); err != nil {
		return readyMount{}, err
	}
	op = "serve NFS"
	if _, err = sv.agent.Mount(ctx, sv.order); err != nil {
		return readyMount{}, err
	}
	m := plan.Client
	m.Mount.Server = "Linux " + sv.vm.facts.Kernel + " nfsd, in a micro-VM"
	m.Mount.Command = slices.Clone(sv.vm.argv)
	m.Diagnose = func() []byte { return append([]byte("[serving machine]\n"), sv.vm.Diagnose()...) }
	m.Life = func() (<-chan struct{}, func() error) { return sv.vm.qemu.Done(), sv.vm.qemu.How }
	m.Pid = sv.vm.Pid
	m.Close = sync.OnceValue(sv.close)
	return readyMount{Served: m, second: sv}, nil
}

// bootSecond opens the serving machine.
func (d driver) bootSecond(ctx context.Context, o env.Options, r mount.Request, plan *mount.VMPlan,
	l *link) (*vm, error) {
	settings := map[string]string{"memory": secondMemory, "disk": fmt.Sprintf("%dMiB", plan.Disk>>20)}
	for _, name := range passedOn {
		if v, given := o.Settings[name]; given {
			settings[name] = v
		}
	}
	b := &boot{
		Options: env.Options{
			Spec: env.Spec{Name: o.Name + "-" + r.Name, Driver: name, Settings: settings}, RunID: o.RunID, Dir: r.Dir,
			Agents: o.Agents, Log: r.Log,
		},
		driver: d, broken: map[string]*env.OpenError{}, second: &serverSettings{modules: plan.Modules, link: l},
	}
	return b.run(ctx)
}

// forget drops what the serving machine and the host have cached of the folder.
func (s *secondVM) forget(ctx context.Context) error {
	order := *s.order
	serve := *order.Serve
	serve.Forget = true
	order.Serve = &serve
	if _, err := s.agent.Mount(ctx, &order); err != nil {
		return err
	}
	return s.vm.DropHostCaches(ctx)
}

// close ends the machine and removes the link.
func (s *secondVM) close() error {
	if s.agent != nil {
		s.agent.Close() // the machine's evidence says more than an error here
	}
	var err error
	if s.vm != nil {
		err = s.vm.Close()
	}
	for _, l := range []*link{s.link, s.theirs} {
		if l != nil {
			l.close()
		}
	}
	return err
}
