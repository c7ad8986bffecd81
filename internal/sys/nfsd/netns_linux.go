package nfsd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// NetNS is a network namespace and a mount namespace in which the kernel runs a separate server, with its own exports,
// sockets, versions and threads. The machine's namespaces can neither see nor reach it; the only access is the other
// end of its network card. It exists in a thread of this process, and the kernel removes everything when the thread
// ends, however it ends.
type NetNS struct {
	tap     *os.File
	calls   chan func()
	gone    chan struct{}
	release string // of the kernel
	control string
	share   string // where Folder is in the namespace
	pipes   string
	server  *Server
}

// OpenNetNS makes a namespace. It needs root.
func OpenNetNS(o NetNSOptions) (*NetNS, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("make a namespace for an NFS server: %w", err)
	}
	r := &NetNS{calls: make(chan func()), gone: make(chan struct{})}
	furnished := make(chan error, 1)
	go r.live(func() error { return r.furnish(&o) }, furnished)
	if err := <-furnished; err != nil {
		return nil, errors.Join(fmt.Errorf("make a namespace for an NFS server: %w", err), r.Close())
	}
	return r, nil
}

// live runs the thread in the namespace.
func (r *NetNS) live(furnish func() error, furnished chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The first thread never ends, and the process sees its namespaces. While it is locked, another thread is used.
		go r.live(furnish, furnished)
		<-r.gone
		runtime.UnlockOSThread()
		return
	}
	// Never unlocked: the thread ends with this function, and the namespaces with it.
	defer close(r.gone)
	furnished <- furnish()
	for call := range r.calls {
		call()
	}
}

// Do runs a function in the namespace. Files that it opens and mounts that it makes belong to the namespace.
func (r *NetNS) Do(f func() error) error {
	done := make(chan error, 1)
	r.calls <- func() { done <- f() }
	return <-done
}

// Tap is the other end of the namespace's network card, a Linux tap device with virtio headers; nil when the namespace
// has none. The namespace closes it.
func (r *NetNS) Tap() *os.File { return r.tap }

// Kernel is the release of the kernel.
func (r *NetNS) Kernel() string { return r.release }

// furnish enters the namespace and sets it up.
func (r *NetNS) furnish(o *NetNSOptions) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("read the kernel's release: %w", err)
	}
	r.release = unix.ByteSliceToString(u.Release[:])
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make namespaces: %w; this needs root", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w; the root must be a mount point, and that of a chroot is not", err)
	}
	if err := r.mountFolder(o.Folder); err != nil {
		return err
	}
	if err := cardUp("lo", nil); err != nil {
		return err
	}
	if o.Address == "" {
		return nil
	}
	const card = "tare0"
	var err error
	if r.tap, err = openTap(card); err != nil {
		return fmt.Errorf("make a network card: %w; check that the module tun is loaded", err)
	}
	address := netip.MustParseAddr(o.Address).As4() // check has validated it
	return cardUp(card, &address)
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
	select {
	case <-r.gone:
		return nil
	default:
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
	close(r.calls)
	<-r.gone
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

// openTap makes a network card in the calling thread's namespace, whose other end is the file.
func openTap(name string) (*os.File, error) {
	// Blocking, or Go's poller would watch it and wake up with each packet.
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "tap"), nil
}

// cardUp brings a card of the calling thread's namespace up, with an address in a network of 24 bits if there is one.
func cardUp(name string, address *[4]byte) error {
	fail := func(err error) error { return fmt.Errorf("bring up network card %s: %w", name, err) }
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq(name)
	if err != nil {
		return fail(err)
	}
	if address != nil {
		for _, a := range []struct {
			request uint
			value   []byte
		}{{unix.SIOCSIFADDR, address[:]}, {unix.SIOCSIFNETMASK, []byte{255, 255, 255, 0}}} {
			if err := r.SetInet4Addr(a.value); err != nil {
				return fail(err)
			}
			if err := unix.IoctlIfreq(s, a.request, r); err != nil {
				return fail(err)
			}
		}
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, r); err != nil {
		return fail(err)
	}
	r.SetUint16(r.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r); err != nil {
		return fail(err)
	}
	return nil
}
