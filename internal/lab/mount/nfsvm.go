package mount

import (
	"errors"
	"fmt"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
)

// serverVM is the value of the setting server for nfsd in a second virtual machine.
const serverVM = "vm"

// ServedByVM tells whether a mount is served by a second virtual machine. Serve cannot start that; a driver that boots
// machines calls PlanVM.
func ServedByVM(s env.Spec) bool { return s.Driver == "nfs" && s.Get("server", "") == serverVM }

// The ports of nfsd in a machine or network namespace of its own.
const (
	nfsPort   = 2049
	mountPort = 2050 // of the mount protocol, which version 3 needs
)

// VMPlan describes a second machine whose kernel serves a mount.
type VMPlan struct {
	// Client is the mount as the first machine sees it. The caller, who boots the second machine, sets its Diagnose and
	// Close.
	Client *Served
	// Serve is the order for the second machine's agent.
	Serve *guestabi.Mount
	// Disk is the size of its disk, bytes.
	Disk int64
	// Modules are the kernel modules that it needs.
	Modules []string
}

// PlanVM plans a mount whose server is nfsd in a second machine. The private link r.Link connects the two machines. The
// error is an *env.OpenError.
func PlanVM(r Request) (*VMPlan, error) {
	j := &job{Request: r}
	j.op, j.remedy = "read settings", "tare list mounts shows the kinds of mounts and their settings"
	p, err := j.planVM()
	if err != nil {
		return nil, &env.OpenError{Env: r.Name, Op: j.op, Err: err, Remedy: j.remedy}
	}
	return p, nil
}

func (j *job) planVM() (*VMPlan, error) {
	if err := j.read(kindNFS().Settings); err != nil {
		return nil, err
	}
	disk, err := parseSize(j.get("disk"))
	if err != nil {
		return nil, err
	}
	link, err := j.link()
	if err != nil {
		return nil, err
	}
	client := link.served
	client.Mount.Kind, client.Mount.Dir, client.Mount.Settings, client.Order.Name = j.Driver, client.Order.Dir,
		j.settings, j.Name
	return &VMPlan{
		Disk: disk, Client: client,
		Serve: &guestabi.Mount{
			Name: j.Name, Dir: guestabi.Scratch + "/share",
			Link: &guestabi.Link{Hardware: linkHardware(j.Link, 1), Address: link.server}, Serve: &link.serve,
		},
		Modules: []string{"nfsd", "virtio_net"},
	}, nil
}

// nfsdLink is a mount over a private link with an nfsd at the other end.
type nfsdLink struct {
	served *Served // the client's end: Order and Modules
	server string  // the other end's address
	serve  guestabi.Serve
}

// link plans both ends of a private link.
func (j *job) link() (*nfsdLink, error) {
	vers := j.get("vers")
	switch {
	case j.Link < 0 || j.Link > 255:
		return nil, fmt.Errorf("private link %d is not within 0 to 255: too many NFS mounts", j.Link)
	case j.get("proto") != "tcp" && vers == version3:
		j.remedy = "leave out proto, or use server=ganesha"
		return nil, errors.New("nfsd on a private link serves only over TCP")
	case j.get("proto") != "tcp":
		j.remedy = "leave out proto, or use vers=3 with server=ganesha"
		return nil, fmt.Errorf("NFS %s does not run over UDP (RFC 7530, section 3.1)", vers)
	case j.get("commit") != "client":
		j.remedy = "leave out commit; to change when nfsd commits, use async=on"
		return nil, errors.New("commit=always works only with NFS-Ganesha; nfsd commits when the client asks for it")
	case j.get("port") != "auto":
		j.remedy = "leave out port"
		return nil, errors.New("a private link has no port on this machine")
	}
	threads, err := parseNumber(j.get("threads"))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"port", "commit"} {
		delete(j.settings, name)
	}
	server, client := linkAddress(j.Link, 1), linkAddress(j.Link, 2)
	serve := guestabi.Serve{Client: client, Version: vers, Port: nfsPort, Threads: int(threads), Async: j.on("async")}
	ports, kind := []int{nfsPort}, "nfs4"
	modules := []string{"nfs", "nfsv4", "virtio_net"}
	if vers == version3 {
		serve.MountPort = mountPort
		ports, kind, modules[1] = append(ports, mountPort), "nfs", "nfsv3"
	}
	return &nfsdLink{
		server: server, serve: serve,
		served: &Served{
			Order: &guestabi.Mount{
				Dir: j.get("dir"), Type: kind, Source: server + ":/", Options: j.clientOptions(server, client, ports),
				Link: &guestabi.Link{Hardware: linkHardware(j.Link, 2), Address: client},
			},
			Modules: modules,
		},
	}, nil
}

// linkAddress is the address of a machine on a private link. It is not routed: only two machines are on the link.
func linkAddress(number, host int) string { return fmt.Sprintf("10.64.%d.%d", number, host) }

// linkHardware is the MAC address of the card with that linkAddress.
func linkHardware(number, host int) string {
	return fmt.Sprintf("%s:%02x:%02x", guestabi.LinkHardware, number, host)
}
