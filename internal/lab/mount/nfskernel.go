package mount

import (
	"context"
	"errors"

	"tare/internal/sys/nfsd"
)

// serverKernel is the value of the setting server for this machine's nfsd.
const serverKernel = "kernel"

// serveKernel serves with this machine's kernel, in namespaces that only this mount has. If the machine runs an NFS
// server, that keeps its exports, sockets and threads; neither affects the other.
func (j *job) serveKernel(ctx context.Context) (*Served, error) {
	if err := j.refuse("server=vm", "disk"); err != nil {
		return nil, err
	}
	link, err := j.link()
	if err != nil {
		return nil, err
	}
	j.op, j.remedy = "make a private link",
		"run tare as root on Linux; or use server=vm, which needs no root, or server=ganesha"
	if !isRoot() {
		return nil, errors.New("only root can start the kernel's nfsd")
	}
	ns, err := nfsd.OpenNetNS(nfsd.NetNSOptions{Folder: j.Folder, Address: link.server})
	if err != nil {
		return nil, err
	}
	j.undo = append(j.undo, ns.Close)
	j.op = "start the kernel's nfsd"
	j.remedy = "use server=vm, which runs nfsd in a micro-VM, or server=ganesha"
	s := link.serve
	if err := ns.Serve(ctx, nfsd.Export{
		Client: s.Client, Version: s.Version, Port: s.Port, MountPort: s.MountPort, Threads: s.Threads, Async: s.Async,
	}); err != nil {
		j.evidence = nfsd.Messages()
		return nil, err
	}
	served := link.served
	served.Mount.Server = "Linux " + ns.Kernel() + " nfsd"
	served.Tap, served.Diagnose = ns.Tap(), nfsd.Messages
	return served, nil
}
