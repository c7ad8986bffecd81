package mount

import (
	"errors"
	"fmt"

	"tare/internal/env"
	"tare/internal/guest/layout"
	"tare/internal/record"
)

// serverVM is the value of the setting server that asks for the kernel's nfsd in a machine of its own.
const serverVM = "vm"

// ServedByVM tells whether a mount is served by a second virtual machine. Serve cannot make it; whoever can boot machines
// asks PlanVM.
func ServedByVM(s env.Spec) bool { return s.Driver == "nfs" && s.Get("server", "") == serverVM }

// nfsPort is where nfsd listens in a machine that has nothing else.
const nfsPort = 2049

// VMPlan says what a second machine has to be and do so that its kernel serves a mount.
type VMPlan struct {
	// Client is the mount as the first machine has it. Its Diagnose and Close are left to whoever boots the second.
	Client *Served
	// Serve is the order for the second machine's agent.
	Serve *layout.Mount
	// Disk is the size of its disk, bytes.
	Disk int64
	// Modules are the kernel modules that it needs.
	Modules []string
}

// PlanVM plans a mount whose server is the kernel's nfsd in a second machine, which is joined to the first by a private
// link of that number, 0 to 255. The error is an *env.OpenError.
func PlanVM(r Request, number int) (*VMPlan, error) {
	j := &job{Request: r}
	j.op, j.remedy = "read settings", "tare list mounts shows the kinds of mounts and their settings"
	p, err := j.planVM(number)
	if err != nil {
		return nil, &env.OpenError{Env: r.Name, Op: j.op, Err: err, Remedy: j.remedy}
	}
	return p, nil
}

func (j *job) planVM(number int) (*VMPlan, error) {
	if number < 0 || number > 255 {
		return nil, fmt.Errorf("there are 256 private links, and %d is not one of them", number)
	}
	if err := j.read(kindNFS().Settings); err != nil {
		return nil, err
	}
	switch {
	case j.get("vers") == "3":
		j.remedy = "use vers=4.2 with server=vm, or server=ganesha with vers=3"
		return nil, errors.New("version 3 needs the mount protocol, which the kernel's nfsd leaves to a program, and there are none in the second machine")
	case j.get("proto") != "tcp":
		j.remedy = "leave out proto, or use vers=3 with server=ganesha"
		return nil, fmt.Errorf("NFS %s does not run over UDP (RFC 7530, section 3.1)", j.get("vers"))
	case j.get("commit") != "client":
		j.remedy = "leave out commit; async=on is the other way that nfsd has"
		return nil, errors.New("commit=always is NFS-Ganesha's; nfsd commits when the client does")
	case j.get("port") != "auto":
		j.remedy = "leave out port"
		return nil, errors.New("server=vm has no port on this machine")
	}
	disk, err := parseSize(j.get("disk"))
	if err != nil {
		return nil, err
	}
	threads, err := parseNumber(j.get("threads"))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"port", "commit"} {
		delete(j.settings, name)
	}
	server, client := linkAddress(number, 1), linkAddress(number, 2)
	return &VMPlan{
		Disk: disk,
		Client: &Served{
			Mount: record.Mount{Kind: j.Driver, Dir: j.get("dir"), Settings: j.settings},
			Order: &layout.Mount{
				Name: j.Name, Dir: j.get("dir"), Type: "nfs4", Source: server + ":/", Options: j.clientOptions(server, client, []int{nfsPort}),
				Link: &layout.Link{Hardware: linkHardware(number, 2), Address: client},
			},
			Modules: []string{"nfs", "nfsv4", "virtio_net"},
		},
		Serve: &layout.Mount{
			Name: j.Name, Dir: layout.Scratch + "/share",
			Link:  &layout.Link{Hardware: linkHardware(number, 1), Address: server},
			Serve: &layout.Serve{Client: client, Version: j.get("vers"), Port: nfsPort, Threads: int(threads), Async: j.on("async")},
		},
		Modules: []string{"nfsd", "virtio_net"},
	}, nil
}

// linkAddress is that of a machine on the private link of a number. Nobody routes there: only two machines are on it.
func linkAddress(number, host int) string { return fmt.Sprintf("10.64.%d.%d", number, host) }

// linkHardware is the address of the card that linkAddress belongs to.
func linkHardware(number, host int) string {
	return fmt.Sprintf("%s:%02x:%02x", layout.LinkHardware, number, host)
}
