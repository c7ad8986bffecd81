package nfsd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"tare/internal/sys/netns"
)

// NetNS is a network namespace and a mount namespace in which the kernel runs a separate server, with its own exports,
// sockets, versions and threads. The machine's namespaces can neither see nor reach it; the only access is the other
// end of its network card. The kernel removes everything when the namespaces' thread ends, however it ends.
type NetNS struct {
	*netns.Space
	tap     *os.File
	release string // of the kernel
	control string
	share   string // where Folder is in the namespace
	pipes   string
	server  *Server
}

// OpenNetNS makes a namespace. It needs root.
func OpenNetNS(o NetNSOptions) (*NetNS, error) {
	fail := func(err error) (*NetNS, error) {
		return nil, fmt.Errorf("make a namespace for an NFS server: %w", err)
	}
	if err := o.check(); err != nil {
		return fail(err)
	}
	space, err := netns.New(unix.CLONE_NEWNS)
	if err != nil {
		return fail(fmt.Errorf("%w; this needs root", err))
	}
	r := &NetNS{Space: space}
	if err := r.Do(func() error { return r.furnish(&o) }); err != nil {
		return fail(errors.Join(err, r.Close()))
	}
	return r, nil
}

// Tap is the other end of the namespace's network card, a Linux tap device with virtio headers; nil when the namespace
// has none. The namespace closes it.
func (r *NetNS) Tap() *os.File { return r.tap }

// Kernel is the release of the kernel.
func (r *NetNS) Kernel() string { return r.release }

// furnish sets the namespace up.
func (r *NetNS) furnish(o *NetNSOptions) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("read the kernel's release: %w", err)
	}
	r.release = unix.ByteSliceToString(u.Release[:])
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w; the root must be a mount point, and that of a chroot is not", err)
	}
	if err := r.mountFolder(o.Folder); err != nil {
		return err
	}
	if err := netns.Up("lo", ""); err != nil {
		return err
	}
	if o.Address == "" {
		return nil
	}
	const card = "tare0"
	var err error
	if r.tap, err = netns.Tap(card); err != nil {
		return fmt.Errorf("%w; check that the module tun is loaded", err)
	}
	return netns.Up(card, o.Address)
}

// mountFolder mounts an empty folder at /run in the namespace, because the machine's /run has the socket of its port
// mapper, where the kernel would remove the registrations of the machine's own servers. The folder to serve is mounted
// in it, so its own path does not matter.
func (r *NetNS) mountFolder(folder string) error {
	run, err := filepath.EvalSymlinks(filepath.Dir(portMapperSocket))
	if err != nil {
		return err
	}
	// Opened before /run is covered, because it may be below.
	fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", folder, err)
	}
	defer unix.Close(fd)
	if err := unix.Mount("tmpfs", run, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"mode=0700,size=1m"); err != nil {
		return fmt.Errorf("mount a folder at %s: %w", run, err)
	}
	r.control, r.share, r.pipes = filepath.Join(run, "nfsd"), filepath.Join(run, "share"), filepath.Join(run, "pipes")
	for _, dir := range []string{r.control, r.share, r.pipes} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if err := unix.Mount("/proc/thread-self/fd/"+strconv.Itoa(fd), r.share, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", folder, err)
	}
	return nil
}

// Ready returns why this machine's kernel cannot serve from a namespace now; nil if it can. It changes nothing: a
// module that is installed but not loaded counts as missing.
func Ready() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("read the kernel's release: %w", err)
	}
	systems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return fmt.Errorf("read the kernel's file systems: %w", err)
	}
	_, err = os.Stat("/dev/net/tun")
	return ready(unix.ByteSliceToString(u.Release[:]), systems, err)
}

// Serve makes the kernel serve the namespace's folder, instead of e.Folder. It can succeed only once.
func (r *NetNS) Serve(ctx context.Context, e Export) error {
	return r.Do(func() error { return r.serve(ctx, e) })
}

func (r *NetNS) serve(ctx context.Context, e Export) error {
	if err := endsByItself(r.release); err != nil {
		return fmt.Errorf("serve NFS: %w", err)
	}
	e.Folder = r.share
	// The block size stays the kernel's choice: its setting is for the whole machine.
	s := &Server{control: r.control, pipes: r.pipes}
	if err := s.start(ctx, &e); err != nil {
		return err
	}
	r.server = s
	return nil
}

// Close ends the server and removes the namespace.
func (r *NetNS) Close() error {
	if r.Closed() {
		return nil
	}
	var err error
	if r.server != nil {
		err = r.Do(r.server.Close)
	}
	if r.share != "" {
		// The thread's end would do the same, a moment after this returns.
		r.Do(func() error {
			for _, dir := range []string{r.control, r.share} {
				unix.Unmount(dir, unix.MNT_DETACH)
			}
			return nil
		})
	}
	r.Space.Close()
	if r.tap != nil {
		err = errors.Join(err, r.tap.Close())
	}
	return err
}

// Messages returns the kernel's last messages about NFS and RPC, for evidence.
func Messages() []byte {
	b := make([]byte, 256<<10)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, b)
	if err != nil {
		return nil
	}
	return about(b[:n])
}
