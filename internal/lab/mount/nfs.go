package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
	"tare/internal/sys/nfsd"
	"tare/internal/sys/proc"
)

// version3 is the version of NFS that needs the mount protocol. It is the only one that runs over UDP.
const version3 = "3"

const nfsRemedy = "install it: apt-get install nfs-ganesha nfs-ganesha-vfs rpcbind"

func kindNFS() kind {
	seconds := func(v string) error {
		if v == "auto" {
			return nil
		}
		return number(0, 86400, "auto or a time in whole seconds")(v)
	}
	return kind{env.MountKind{
		Name: "nfs",
		Doc: "NFS-Ganesha or the kernel's nfsd, with the kernel's client; close and fsync reach the host's " +
			"file system; changes on the host become visible after the timeout of the attribute cache.",
		Shared:    true,
		Probe:     func(ctx context.Context) env.Status { return probeNFS(ctx, env.Spec{}) },
		ProbeSpec: probeNFS,
		CheckAll:  checkNFS,
		Settings: []env.Setting{
			settingDir(),
			settingPort(),
			{Name: "vers", Default: "4.2", Doc: "The protocol: 3, 4.0, 4.1 or 4.2.",
				Check: env.OneOf(version3, "4.0", "4.1", "4.2"), Try: []string{version3, "4.2"}},
			{Name: "proto", Default: "tcp", Doc: "tcp, or udp with version 3, as Vagrant does, where the kernel " +
				"has it (CONFIG_NFS_DISABLE_UDP_SUPPORT).", Check: env.OneOf("tcp", "udp")},
			{Name: "server", Default: serverAuto, Doc: "ganesha: NFS-Ganesha; kernel: this machine's nfsd, in " +
				"namespaces of its own; vm: nfsd in a second micro-VM; auto: kernel if that works and no setting " +
				"needs Ganesha, else ganesha.",
				Check: env.OneOf(serverAuto, serverGanesha, serverKernel, serverVM)},
			{Name: "disk", Default: "1GiB", Doc: "With server=vm: the size of that machine's disk.",
				Check: sized(64<<20, 1<<44)},
			{Name: "threads", Default: "8", Doc: "With server=kernel or vm: threads, 1 to 256.",
				Check: number(1, 256, "a number of threads")},
			{Name: "async", Default: "off", Doc: "With server=kernel or vm: on acknowledges writes before they are " +
				"on the server's disk; a crash of the server loses them.", Check: onOff()},
			{Name: "commit", Default: "client", Doc: "When data reaches the disk: client (as the client says: " +
				"fsync, close) or always (with each write).",
				Check: env.OneOf("client", "always")},
			{Name: "rsize", Default: "auto", Doc: "Largest read, bytes; auto is what client and server agree on.",
				Check: autoSize(1024, 1<<20), Try: []string{"auto", "65536"}},
			{Name: "wsize", Default: "auto", Doc: "Largest write, bytes; auto is what client and server agree on.",
				Check: autoSize(1024, 1<<20), Try: []string{"auto", "65536"}},
			{Name: "actimeo", Default: "auto",
				Doc: "How long the guest caches attributes, seconds; auto is 3 to 60, 0 is like noac, but " +
					"without synchronous writes.",
				Check: seconds, Try: []string{"auto", "60"}},
			{Name: "noac", Default: "off", Doc: "on caches no attributes and writes synchronously.", Check: onOff(),
				Try: []string{"off"}},
			{Name: "recovery", Default: "hard", Doc: "If the server does not answer: hard waits for ever, soft " +
				"returns an error.",
				Check: env.OneOf("hard", "soft")},
			{Name: "timeo", Default: "auto",
				Doc: "Time until a request is repeated, tenths of a second; auto is 600 over TCP.",
				Check: func(v string) error {
					if v == "auto" {
						return nil
					}
					return number(1, 6000, "auto or a number of tenths of a second")(v)
				}},
			{Name: "nconnect", Default: "1", Doc: "Number of connections, 1 to 16.",
				Check: number(1, 16, "a number of connections")},
		},
	}, serveNFS}
}

// The values of the setting server, besides serverKernel and serverVM.
const (
	serverAuto    = "auto"
	serverGanesha = "ganesha"
)

// chooseServer is the server for these settings on this machine. A setting that only one server has decides. Otherwise
// it is this machine's kernel, the usual NFS server, if that is ready and tare runs as root; else NFS-Ganesha.
func chooseServer(s env.Spec) string {
	given := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { _, ok := s.Settings[name]; return ok })
	}
	server := s.Get("server", serverAuto)
	switch {
	case server != serverAuto:
		return server
	case given("threads", "async"):
		return serverKernel
	case given("port") || s.Get("proto", "tcp") != "tcp" || s.Get("commit", "client") != "client":
		return serverGanesha
	case isRoot() && nfsd.Ready() == nil:
		return serverKernel
	}
	return serverGanesha
}

// OverNetwork tells whether a mount is served on the host's loopback, which its guest must reach by a network.
func OverNetwork(s env.Spec) bool {
	switch s.Driver {
	case "nfs":
		return chooseServer(s) == serverGanesha
	case "smb", "sshfs", "rsync":
		return true
	}
	return false
}

// probeNFS tells whether the server for these settings works here.
func probeNFS(ctx context.Context, s env.Spec) env.Status {
	server := chooseServer(s)
	switch {
	case server == serverVM:
		return env.Status{OK: true, Detail: "nfsd in a micro-VM"}
	case runtime.GOOS != "linux":
		return env.Status{Detail: "tare runs NFS servers on Linux only", Remedy: "use server=vm, 9p or sshfs"}
	case server == serverGanesha:
		return probeGanesha(ctx)
	}
	if err := nfsd.Ready(); err != nil {
		return env.Status{Detail: err.Error(), Remedy: "modprobe nfsd tun; or use server=vm or server=ganesha"}
	}
	if !isRoot() {
		return env.Status{Detail: "only root can start the kernel's nfsd", Remedy: "run tare as root, or use server=vm"}
	}
	return env.Status{OK: true, Detail: "this machine's own nfsd"}
}

func probeGanesha(ctx context.Context) env.Status {
	_, version, err := programVersion(ctx, "ganesha.nfsd", "-v")
	if err == nil {
		for _, name := range []string{"rpcbind", "unshare", "mount"} {
			if _, e := proc.LookPath(name); e != nil {
				err = fmt.Errorf("%s is not installed", name)
			}
		}
	}
	switch {
	case err != nil:
		return env.Status{Detail: err.Error(), Remedy: nfsRemedy}
	case !isRoot():
		return env.Status{Detail: "NFS-Ganesha " + version + " must run as root to open files by handle",
			Remedy: "run tare as root"}
	}
	return env.Status{OK: true, Detail: "NFS-Ganesha " + version}
}

// nfsPseudo is the folder's path for clients of all versions, so that no path of the host appears in the guest.
const nfsPseudo = "/share"

// ganeshaConfig makes ganesha.conf. Paths are in double quotes; they must not contain quotes or backslashes.
func ganeshaConfig(folder, dir, vers, proto, commit string, ports []int) (string, error) {
	for _, p := range []string{folder, dir} {
		if err := plain(p, `"\`); err != nil {
			return "", err
		}
	}
	major, minor, _ := strings.Cut(vers, ".")
	transports, udp := "TCP", "false"
	if proto == "udp" {
		transports, udp = "UDP, TCP", "true"
	}
	minors := "0"
	if minor != "" && minor != "0" {
		minors = "0, " + minor // 0 is for the probe, which needs no session
	}
	var b strings.Builder
	block := func(head string, lines ...string) {
		fmt.Fprintf(&b, "%s {\n", head)
		for _, l := range lines {
			fmt.Fprintf(&b, "\t%s\n", l)
		}
		b.WriteString("}\n")
	}
	block("NFS_CORE_PARAM",
		fmt.Sprintf("NFS_Port = %d;", ports[0]), fmt.Sprintf("MNT_Port = %d;", ports[1]), "Bind_addr = "+loopback+";",
		"Protocols = "+major+";", "Enable_UDP = "+udp+";", "Enable_NLM = false;", "Enable_RQUOTA = false;",
		"mount_path_pseudo = true;",
		// Statistics take time, and nobody reads them.
		"Enable_NFS_Stats = false;",
	)
	block("NFSv4", "Graceless = true;", "Minor_Versions = "+minors+";", "Only_Numeric_Owners = true;",
		"RecoveryRoot = "+`"`+path.Join(dir, "recovery")+`";`)
	block("NFS_KRB5", "Active_krb5 = false;")
	block("EXPORT",
		"Export_Id = 1;", `Path = "`+folder+`";`, `Pseudo = "`+nfsPseudo+`";`, "Access_Type = RW;",
		"Squash = No_Root_Squash;", "SecType = sys;",
		"Protocols = "+major+";", "Transports = "+transports+";", fmt.Sprintf("NFS_Commit = %t;", commit == "always"),
		// By default the server caches attributes for a minute and does not see changes made on the host; no setting of
		// the client avoids that.
		"Attr_Expiration_Time = 0;",
		`FSAL { Name = VFS; }`,
	)
	return b.String(), nil
}

// ganeshaScript starts the server isolated from the machine's other services. Ganesha always registers with rpcbind.
// Registering with the machine's rpcbind would replace the entries of an NFS server there, so Ganesha gets an rpcbind
// of its own, which listens in an empty network namespace and is reached only by its socket. /run and /proc are private
// as well. Everything ends with the first process of the namespace, which is the server.
const ganeshaScript = `set -e
mount --make-rprivate /
mount --bind "$1" /run
mount -t proc proc /proc
shift
mkdir /run/rpcbind
unshare --net rpcbind -f &
n=0
until [ -S /run/rpcbind.sock ]; do
	n=$((n+1)); if [ $n -gt 200 ]; then echo "rpcbind does not start" >&2; exit 1; fi
	sleep 0.05
done
exec "$@"
`

func serveNFS(ctx context.Context, j *job) (*Served, error) {
	server := chooseServer(j.Spec)
	j.settings["server"] = server
	switch server {
	case serverVM:
		return nil, errors.New("server=vm works only in micro-VMs")
	case serverKernel:
		return j.serveKernel(ctx)
	}
	if err := j.refuse("the kernel's nfsd: server=vm or server=kernel", "disk", "threads", "async"); err != nil {
		return nil, err
	}
	j.op, j.remedy = "find NFS-Ganesha", nfsRemedy
	status := probeGanesha(ctx)
	if !status.OK {
		j.remedy = status.Remedy
		return nil, errors.New(status.Detail)
	}
	program, version, err := programVersion(ctx, "ganesha.nfsd", "-v")
	if err != nil {
		return nil, err
	}
	vers, proto := j.get("vers"), j.get("proto")
	if proto == "udp" && vers != version3 {
		j.op, j.remedy = "read settings", "use vers=3, or proto=tcp"
		return nil, fmt.Errorf("NFS %s does not run over UDP (RFC 7530, section 3.1)", vers)
	}
	j.op, j.remedy = "write NFS-Ganesha's configuration", moreRoom
	if strings.HasPrefix(j.Folder+"/", "/run/") || strings.HasPrefix(j.dir+"/", "/run/") ||
		strings.HasPrefix(j.Folder+"/", "/proc/") {
		return nil, fmt.Errorf("NFS-Ganesha has its own /run, so it cannot serve %s", j.Folder)
	}
	for _, name := range []string{"recovery", "run"} {
		if err := os.Mkdir(j.file(name), 0o700); err != nil {
			return nil, err
		}
	}
	j.op = "start NFS-Ganesha"
	j.remedy = "see the server's log in the evidence; it needs namespaces, a file system with file handles (ext4, " +
		"xfs, btrfs; set TMPDIR to one) and CAP_DAC_READ_SEARCH"
	var argv []string
	d, ports, err := j.listen(ctx, 2, func(ports []int) (*daemon, func(context.Context) error, error) {
		config, err := ganeshaConfig(j.Folder, j.dir, vers, proto, j.get("commit"), ports)
		if err == nil {
			err = j.write("ganesha.conf", config)
		}
		if err != nil {
			return nil, nil, err
		}
		argv = []string{program, "-F", "-L", j.file("log"), "-f", j.file("ganesha.conf"), "-p", j.file("pid"), "-N",
			"EVENT"}
		d, err := launch(append([]string{"/bin/sh", "-c", ganeshaScript, "tare-nfs", j.file("run")}, argv...),
			j.file("log"), privateNamespaces)
		return d, func(ctx context.Context) error { return askNFS(ctx, ports, vers, proto) }, err
	})
	if err != nil {
		return nil, err
	}
	order := &guestabi.Mount{Dir: j.get("dir"), Type: "nfs", Source: guestabi.HostAddress + ":" + nfsPseudo,
		Options: j.nfsOptions(ports)}
	modules := []string{"nfs", "nfsv3"}
	if vers != version3 {
		order.Type, modules[1] = "nfs4", "nfsv4"
	}
	s := &Served{
		Mount: record.Mount{Server: "NFS-Ganesha " + version, Command: argv}, Order: order,
		Modules: modules, Network: true, Diagnose: d.diagnose, Life: d.life, Pid: d.pid,
	}
	if proto == "udp" {
		order.Refused = ErrNFSUDP.Error()
	}
	return s, nil
}

// refuse removes settings that belong to another server. It returns an error if one of them was given.
func (j *job) refuse(owner string, names ...string) error {
	for _, name := range names {
		if _, given := j.Settings[name]; given {
			j.op, j.remedy = "read settings", "leave it out, or use that server"
			return fmt.Errorf("setting %s is for %s", name, owner)
		}
		delete(j.settings, name)
	}
	return nil
}

// nfsOptions are the guest's mount options. It connects to the ports directly, without rpcbind.
func (j *job) nfsOptions(ports []int) string {
	return j.clientOptions(guestabi.HostAddress, guestabi.GuestAddress, ports)
}

// clientOptions are the options of client's mount of server.
func (j *job) clientOptions(server, client string, ports []int) string {
	vers, proto := j.get("vers"), j.get("proto")
	o := []string{"vers=" + vers, "proto=" + proto, "addr=" + server, "port=" + strconv.Itoa(ports[0]),
		j.get("recovery")}
	if vers == version3 {
		// Locks are local to the guest: the lock protocol is another service, and its callbacks could not reach the
		// guest.
		o = append(o, "mountvers=3", "mountproto="+proto, "mountport="+strconv.Itoa(ports[1]), "nolock")
	} else {
		o = append(o, "clientaddr="+client)
	}
	o = append(o, j.sizeOptions("rsize", "wsize")...)
	for _, name := range []string{"actimeo", "timeo"} {
		if v := j.get(name); v != "auto" {
			o = append(o, name+"="+v)
		}
	}
	if j.on("noac") {
		o = append(o, "noac")
	}
	if n := j.get("nconnect"); n != "1" {
		o = append(o, "nconnect="+n)
	}
	return strings.Join(o, ",")
}
