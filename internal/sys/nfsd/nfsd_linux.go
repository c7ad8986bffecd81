package nfsd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// caches is the folder of the kernel's caches: those of the network namespace of the calling thread.
const caches = "/proc/thread-self/net/rpc"

// portMapperSocket is where the kernel looks for a port mapper first (RPCBIND_SOCK_PATHNAME).
const portMapperSocket = "/var/run/rpcbind.sock"

// Server is the running server of the kernel.
type Server struct {
	control   string   // where its control files are
	pipes     string   // an empty folder, for the pipes between the kernel and its helpers
	blockSize int      // the largest read and write, bytes; 0 keeps the kernel's choice, which depends on the memory
	mapper    *service // at portMapperSocket; nil until it is started, as the next two
	mounts    *service
	memory    *memory
}

// Start makes the kernel serve an export, in a system without another server and without a port mapper. If one already
// runs, Start fails.
func Start(ctx context.Context, e Export) (*Server, error) {
	s := &Server{control: "/proc/fs/nfsd", pipes: filepath.Join(filepath.Dir(portMapperSocket), "tare-pipes"),
		blockSize: blockSize}
	if err := os.MkdirAll(s.pipes, 0o755); err != nil {
		return nil, fmt.Errorf("serve NFS: %w", err)
	}
	if err := s.start(ctx, &e); err != nil {
		return nil, err
	}
	return s, nil
}

// start makes the kernel serve in the namespaces of the calling thread.
func (s *Server) start(ctx context.Context, e *Export) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("serve NFS: %w", err)
		}
	}()
	if err := e.Check(); err != nil {
		return err
	}
	if err := unix.Mount("nfsd", s.control, "nfsd", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil &&
		!errors.Is(err, unix.EBUSY) {
		if errors.Is(err, unix.ENODEV) || errors.Is(err, fs.ErrNotExist) {
			return ErrNoServer
		}
		return fmt.Errorf("mount %s: %w", s.control, err)
	}
	if n, err := s.read("threads"); err != nil || n != "0" {
		return fmt.Errorf("%s threads already run (%v), but the kernel has only one server", n, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	mapper, err := listenLocal(portMapperSocket)
	if err != nil {
		return fmt.Errorf("start the port mapper: %w", err)
	}
	s.mapper = offer(mapper, nil, portMapper())
	for _, c := range e.entries() {
		if err := write(filepath.Join(caches, c.cache, "channel"), c.line); err != nil {
			if c.cache == cacheExport && errors.Is(err, unix.EINVAL) {
				err = fmt.Errorf("%w; its file system must support file handles, as ext4, xfs, btrfs and tmpfs do", err)
			}
			return fmt.Errorf("add to the kernel's cache %s the entry %s: %w", c.cache, e.Folder, err)
		}
	}
	known, err := s.read("versions")
	if err != nil {
		return err
	}
	if s.memory, err = remember(s.pipes); err != nil {
		return err
	}
	for _, l := range s.lines(e, known) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := write(filepath.Join(s.control, l.file), l.line+"\n"); err != nil {
			return fmt.Errorf("write %q to %s: %w", l.line, l.file, err)
		}
	}
	if e.Version == version3 {
		err = s.offerMount(e)
	} else {
		err = s.endGrace(ctx)
	}
	if err != nil {
		return err
	}
	return s.check(e)
}

// controlLine is a line for a control file.
type controlLine struct{ file, line string }

// lines start the server, in their order: nothing can be changed once it has a socket.
func (s *Server) lines(e *Export, known string) []controlLine {
	l := []controlLine{{"versions", e.versionLine(known)}}
	if s.blockSize > 0 {
		l = append(l, controlLine{"max_block_size", fmt.Sprint(s.blockSize)})
	}
	if e.Version != version3 {
		l = append(l, controlLine{"nfsv4gracetime", fmt.Sprint(graceTime)})
	}
	return append(l, controlLine{"portlist", fmt.Sprintf("tcp %d", e.Port)},
		controlLine{"threads", fmt.Sprint(e.Threads)})
}

// blockSize is the largest read and write, bytes: the default of a server with 4 GiB of memory. The default is lower
// with less memory, down to 8 KiB, and a micro-VM has less memory than a real server.
const blockSize = 1 << 20

// offerMount serves the mount protocol of version 3.
func (s *Server) offerMount(e *Export) error {
	handle, err := s.rootHandle(e.Folder)
	if err != nil {
		return fmt.Errorf("ask the kernel for the handle of %s: %w", e.Folder, err)
	}
	socket, err := listenTCP(e.MountPort)
	if err != nil {
		return fmt.Errorf("answer the mount protocol at port %d: %w", e.MountPort, err)
	}
	client := netip.MustParseAddr(e.Client).As4() // Check has validated it
	s.mounts = offer(socket, client[:], mountProtocol(handle))
	return nil
}

// rootHandle asks the kernel for the handle of a folder that it exports. Question and answer go through one open file.
func (s *Server) rootHandle(folder string) ([]byte, error) {
	f, err := os.OpenFile(filepath.Join(s.control, "filehandle"), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.WriteString(handleLine(folder)); err != nil {
		return nil, err
	}
	b := make([]byte, 4096)
	n, err := f.ReadAt(b, 0)
	if n == 0 {
		return nil, err
	}
	return parseHandle(string(b[:n]))
}

// graceTime is the shortest that the kernel takes, in seconds.
const graceTime = 10

// endGrace ends the grace period, in which clients may only reclaim files that they had open before a restart: there
// were no clients before, and the kernel was told so. If the period does not end, it waits for its end.
func (s *Server) endGrace(ctx context.Context) error {
	const file = "v4_end_grace"
	if err := write(filepath.Join(s.control, file), "Y\n"); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("end the grace period: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*graceTime*time.Second)
	defer cancel()
	for {
		if ended, err := s.read(file); err != nil || strings.HasPrefix(ended, "Y") {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end the grace period: it is still running: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// check reads back the kernel's state.
func (s *Server) check(e *Export) error {
	n, err := s.read("threads")
	if err != nil {
		return err
	}
	if want := fmt.Sprint(e.Threads); n != want {
		return fmt.Errorf("%s threads run instead of %s", n, want)
	}
	got, err := s.read("versions")
	if err != nil {
		return err
	}
	if spoken := spoken(got); !slices.Equal(spoken, []string{e.Version}) {
		return fmt.Errorf("the server speaks %q, but only %s was requested; its kernel may be built without", spoken,
			e.Version)
	}
	return nil
}

// Close ends the server. Its clients see a server that does not answer.
func (s *Server) Close() error {
	err := write(filepath.Join(s.control, "threads"), "0\n")
	// Only now, because the kernel unregisters its services while it ends.
	if s.mounts != nil {
		s.mounts.close()
	}
	if s.mapper != nil {
		s.mapper.close()
		err = errors.Join(err, os.Remove(portMapperSocket))
	}
	if s.memory != nil {
		s.memory.close()
		unix.Unmount(s.pipes, unix.MNT_DETACH)
	}
	s.mounts, s.mapper, s.memory = nil, nil, nil
	if err != nil {
		return fmt.Errorf("end the NFS server: %w", err)
	}
	return nil
}

// write writes a line in one call, as these files require.
func write(name, line string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

func (s *Server) read(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(s.control, name))
	return strings.TrimSpace(string(b)), err
}
