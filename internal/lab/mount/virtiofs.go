package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

func kindVirtiofs() kind {
	return kind{env.MountKind{
		Name: "virtiofs",
		Doc: "virtiofsd, a FUSE server over virtio; fsync reaches the host's file system; locks stay in the " +
			"guest; changes on the host become visible after the timeout that cache= sets.",
		Shared:   true,
		Probe:    probeVirtiofs,
		CheckAll: checkVirtiofs,
		Settings: []env.Setting{
			settingDir(),
			{Name: "daemon", Default: "auto",
				Doc:   "The virtiofsd: auto (Rust if it is installed, else C), c (QEMU's up to 7.2), rust, or a path.",
				Check: checkDaemon},
			{Name: "cache", Default: "auto", Doc: "What the guest caches: auto (for one second), always, or never.",
				Check: env.OneOf("auto", "always", "never"), Try: []string{"auto", "always", "never"}},
			{Name: "writeback", Default: "off", Doc: "on lets the guest collect writes before it sends them.",
				Check: onOff(), Try: []string{"on", "off"}},
			{Name: "direct", Default: "on",
				Doc:   "on passes the guest's O_DIRECT to the host; off ignores it.",
				Check: onOff()},
			{Name: "xattr", Default: "off", Doc: "on enables extended attributes.", Check: onOff()},
			{Name: "posix_lock", Default: "off", Doc: "on passes fcntl locks to the host (C daemon only).",
				Check: onOff()},
			{Name: "sandbox", Default: "namespace",
				Doc:   "Isolation of the daemon: namespace, chroot, or none (Rust daemon only).",
				Check: env.OneOf("namespace", "chroot", "none")},
			{Name: "threads", Default: "0", Doc: "Size of the daemon's thread pool, 0 (none) to 64.",
				Check: number(0, 64, "a number of threads"), Try: []string{"0", "4"}},
			{Name: "queue", Default: "1024", Doc: "Length of the queue, a power of two from 64 to 1024.",
				Check: env.OneOf("64", "128", "256", "512", "1024")},
			{Name: "dax", Default: "off", Doc: "Size of a window onto the host's page cache, such as 1GiB, or off; " +
				"needs a patched QEMU.", Check: checkDAX},
		},
	}, serveVirtiofs}
}

const virtiofsRemedy = "install it: apt-get install virtiofsd (Debian 13, Ubuntu 23.10 and later), " +
	"qemu-system-common (Debian 12), or cargo install virtiofsd"

func checkDaemon(v string) error {
	if v == "auto" || v == "c" || v == "rust" || filepath.IsAbs(v) {
		return nil
	}
	return fmt.Errorf("%q is not auto, c, rust or the absolute path of a virtiofsd", v)
}

func checkDAX(v string) error {
	if v == "off" {
		return nil
	}
	return sized(1<<20, 1<<40)(v)
}

// virtiofsd is one of the two programs with that name.
type virtiofsd struct {
	path    string
	version string
	rust    bool
	help    string
}

// String is its name in records.
func (v *virtiofsd) String() string {
	language := "C"
	if v.rust {
		language = "Rust"
	}
	return fmt.Sprintf("virtiofsd %s (%s)", v.version, language)
}

// findVirtiofsd looks for a daemon: "auto", "c", "rust" or a path.
func findVirtiofsd(ctx context.Context, which string) (*virtiofsd, error) {
	if filepath.IsAbs(which) {
		return identify(ctx, which)
	}
	var errs error
	var c *virtiofsd
	// Packages install it outside of PATH, because QEMU's management starts it.
	for _, name := range []string{"virtiofsd", "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd",
		"/usr/lib/qemu/virtiofsd"} {
		path, err := proc.LookPath(name)
		if err != nil {
			continue
		}
		v, err := identify(ctx, path)
		switch {
		case err != nil:
			errs = errors.Join(errs, err)
		case v.rust && which != "c":
			return v, nil
		case !v.rust && c == nil:
			c = v
		}
	}
	if c != nil && which != "rust" {
		return c, nil
	}
	if errs == nil {
		errs = fmt.Errorf("no virtiofsd (daemon=%s) is installed", which)
	}
	return nil, errs
}

// identify tells which of the two programs a file is. Both are called virtiofsd, and both have a version 1.
func identify(ctx context.Context, path string) (*virtiofsd, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	version, err := proc.Run(ctx, nil, path, "--version")
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	help, err := proc.Run(ctx, nil, path, "--help")
	if err != nil {
		return nil, fmt.Errorf("ask %s for its options: %w", path, err)
	}
	return parseVirtiofsd(path, proc.Printable(version), proc.Printable(help))
}

func parseVirtiofsd(path, version, help string) (*virtiofsd, error) {
	v := &virtiofsd{path: path, help: help}
	line, _, _ := strings.Cut(version, "\n")
	for _, word := range strings.Fields(line) {
		if word[0] >= '0' && word[0] <= '9' {
			v.version = word
			break
		}
	}
	switch {
	case v.version == "" || !strings.Contains(line, "virtiofsd"):
		return nil, fmt.Errorf("%s is not a virtiofsd: it calls itself %.80q", path, line)
	case strings.Contains(help, "--shared-dir"):
		v.rust = true
	case !strings.Contains(help, "-o source="):
		return nil, fmt.Errorf("%s has neither --shared-dir nor -o source=: it is not a virtiofsd known to tare",
			path)
	}
	return v, nil
}

// arguments returns the daemon's command line for the socket with descriptor fd. files bounds its open files; 0 sets no
// bound.
func (v *virtiofsd) arguments(j *job, fd int, files uint64) ([]string, error) {
	refuse := func(setting string) error {
		return fmt.Errorf("%s has no %s; choose daemon=%s", v, setting,
			map[bool]string{true: "c", false: "rust"}[v.rust])
	}
	a := []string{v.path, fmt.Sprintf("--fd=%d", fd), "--thread-pool-size=" + j.get("threads")}
	if files > 0 {
		// virtiofsd's own default, a million, fails if the hard limit is lower and cannot be raised, as in containers.
		a = append(a, fmt.Sprintf("--rlimit-nofile=%d", files))
	}
	if v.rust {
		if j.on("posix_lock") {
			return nil, refuse("posix_lock")
		}
		if err := plain(j.Folder, ""); err != nil {
			return nil, err
		}
		a = append(a, "--shared-dir", j.Folder, "--cache="+j.get("cache"), "--sandbox="+j.get("sandbox"))
		for _, o := range []struct{ setting, option string }{{"writeback", "--writeback"},
			{"direct", "--allow-direct-io"}, {"xattr", "--xattr"}} {
			if !j.on(o.setting) {
				continue
			}
			if !strings.Contains(v.help, o.option) {
				return nil, fmt.Errorf("%s has no option %s", v, o.option)
			}
			a = append(a, o.option)
		}
		return a, nil
	}
	if j.get("sandbox") == "none" {
		return nil, refuse("sandbox=none")
	}
	cache := strings.Replace(j.get("cache"), "never", "none", 1)
	a = append(a, "-f", "-o", "source="+fuseQuote(j.Folder), "-o", "cache="+cache, "-o", "sandbox="+j.get("sandbox"))
	for _, o := range []struct{ setting, option string }{{"writeback", "writeback"}, {"direct", "allow_direct_io"},
		{"xattr", "xattr"}, {"posix_lock", "posix_lock"}} {
		if j.on(o.setting) {
			a = append(a, "-o", o.option)
		} else {
			a = append(a, "-o", "no_"+o.option)
		}
	}
	return a, nil
}

// fuseQuote escapes a value for libfuse's -o, where a comma ends an option and a backslash escapes.
func fuseQuote(s string) string { return strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(s) }

func probeVirtiofs(ctx context.Context) env.Status {
	v, err := findVirtiofsd(ctx, "auto")
	switch {
	case runtime.GOOS != "linux":
		return env.Status{Detail: "virtiofsd runs on Linux only", Remedy: "use 9p"}
	case err != nil:
		return env.Status{Detail: err.Error(), Remedy: virtiofsRemedy}
	case !v.rust && os.Geteuid() != 0:
		return env.Status{Detail: v.String() + " must run as root",
			Remedy: "run tare as root, or install the Rust daemon: cargo install virtiofsd"}
	}
	return env.Status{OK: true, Detail: v.String()}
}

func serveVirtiofs(ctx context.Context, j *job) (*Served, error) {
	j.op, j.remedy = "find virtiofsd", virtiofsRemedy
	v, err := findVirtiofsd(ctx, j.get("daemon"))
	if err != nil {
		return nil, err
	}
	if !v.rust && os.Geteuid() != 0 {
		j.remedy = "run tare as root, or install the Rust daemon: cargo install virtiofsd"
		return nil, fmt.Errorf("%s must run as root", v)
	}
	device, options, err := j.dax(ctx)
	if err != nil {
		return nil, err
	}
	j.op, j.remedy = "start virtiofsd", "see the daemon's output in the evidence; in a container without namespaces "+
		"try sandbox=chroot or, with the Rust daemon, sandbox=none"
	argv, err := v.arguments(j, listenFD, openFiles())
	if err != nil {
		return nil, err
	}
	socket := j.file("vhost")
	k, err := keepListening(argv, socket, j.Log.With("mount", j.Name))
	if err != nil {
		return nil, err
	}
	j.undo = append(j.undo, k.close)
	if err := k.await(ctx); err != nil {
		k.close()
		j.evidence = k.diagnose()
		return nil, err
	}
	id, tag := "fs-"+j.Name, tagOf(j.Name)
	return &Served{
		Mount:   record.Mount{Server: v.String(), Command: argv},
		Order:   &guestabi.Mount{Dir: j.get("dir"), Type: "virtiofs", Source: tag, Options: options},
		Modules: []string{"virtiofs"}, SharedMemory: true,
		Devices: []string{
			"-chardev", "socket,id=" + id + ",path=" + comma(socket),
			"-device", "vhost-user-fs-pci,chardev=" + id + ",tag=" + tag + ",queue-size=" + j.get("queue") + device,
		},
		Share:    &Folder{Tag: tag, Socket: socket, Queue: j.get("queue")},
		Diagnose: k.diagnose, Life: k.life, Pid: k.pid,
	}, nil
}

// dax returns what a window onto the host's page cache adds to the device and to the mount's options.
func (j *job) dax(ctx context.Context) (device, options string, err error) {
	if j.get("dax") == "off" {
		return "", "", nil
	}
	j.op, j.remedy = "look for DAX", "leave dax off; the window needs a QEMU built with the virtio-fs patches"
	machine := map[string]string{"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}[runtime.GOARCH]
	program, err := proc.LookPath(machine)
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	help, err := proc.Run(ctx, nil, program, "-device", "vhost-user-fs-pci,help")
	if err != nil {
		return "", "", fmt.Errorf("ask QEMU for the device's options: %w", err)
	}
	if !strings.Contains(string(help), "cache-size=") {
		return "", "", fmt.Errorf("%s has no cache-size for vhost-user-fs-pci", program)
	}
	size, err := parseSize(j.get("dax"))
	return fmt.Sprintf(",cache-size=%d", size), "dax=always", err
}
