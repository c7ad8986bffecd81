package nfsd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Where the kernel's files are. The folder of the caches is that of the network namespace of whoever looks.
const (
	control = "/proc/fs/nfsd"
	caches  = "/proc/net/rpc"
)

// Server is the kernel's server under way.
type Server struct{}

// Start has the kernel serve an export. The control files must belong to nobody else: when a server runs already, that is
// the error.
func Start(ctx context.Context, e Export) (s *Server, err error) {
	if err := e.Check(); err != nil {
		return nil, fmt.Errorf("serve NFS: %w", err)
	}
	if err := unix.Mount("nfsd", control, "nfsd", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("serve NFS: mount %s: %w; is the module nfsd loaded?", control, err)
	}
	if n, err := read("threads"); err != nil || n != "0" {
		return nil, fmt.Errorf("serve NFS: %s threads run already (%v); the kernel has one server", n, err)
	}
	s = &Server{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("serve NFS: %w", err), s.Close())
			s = nil
		}
	}()
	for _, c := range e.entries() {
		if err := write(filepath.Join(caches, c.cache, "channel"), c.line); err != nil {
			return s, fmt.Errorf("tell the kernel's cache %s: %w", c.cache, err)
		}
	}
	if err := remember(); err != nil {
		return s, err
	}
	known, err := read("versions")
	if err != nil {
		return s, err
	}
	for _, c := range []struct{ file, line string }{
		{"versions", e.versionLine(known) + "\n"},
		{"max_block_size", fmt.Sprintln(blockSize)},
		{"nfsv4gracetime", fmt.Sprintln(graceTime)},
		{"portlist", fmt.Sprintf("tcp %d\n", e.Port)},
		{"threads", fmt.Sprintln(e.Threads)},
	} {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		if err := write(filepath.Join(control, c.file), c.line); err != nil {
			return s, fmt.Errorf("write %q to %s: %w", strings.TrimSpace(c.line), c.file, err)
		}
	}
	if err := endGrace(ctx); err != nil {
		return s, fmt.Errorf("end the time of grace: %w", err)
	}
	return s, s.check(&e)
}

// remember gives the server a directory to note its clients in, which is the one way to do so that needs no program.
// Without any, it waits out the time of grace whatever it is told. Newer kernels may be built without it.
func remember() error {
	dir, err := read("nfsv4recoverydir")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("the kernel names %q as the folder to note clients in", dir)
	}
	return os.MkdirAll(dir, 0o700)
}

// graceTime is the shortest that the kernel takes, in seconds.
const graceTime = 10

// endGrace ends the time in which clients may reclaim what they had open before a restart, and nobody may open anything
// else: there was nobody before. Where the kernel does not let it be ended, it is waited for.
func endGrace(ctx context.Context) error {
	const file = "v4_end_grace"
	if err := write(filepath.Join(control, file), "Y\n"); err != nil && !errors.Is(err, unix.EBUSY) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*graceTime*time.Second)
	defer cancel()
	for {
		if ended, err := read(file); err != nil || strings.HasPrefix(ended, "Y") {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it goes on: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// blockSize is the largest read and write that is taken, bytes: what a server with 4 GiB of memory offers by itself. One
// with less offers less, down to 8 KiB, and a micro-VM has less than any server that people use.
const blockSize = 1 << 20

// check reads back what the kernel does.
func (s *Server) check(e *Export) error {
	n, err := read("threads")
	if err != nil {
		return err
	}
	if want := fmt.Sprint(e.Threads); n != want {
		return fmt.Errorf("%s threads run instead of %s", n, want)
	}
	got, err := read("versions")
	if err != nil {
		return err
	}
	if spoken := spoken(got); !slices.Equal(spoken, []string{e.Version}) {
		return fmt.Errorf("the server speaks %q, and %s alone was asked for; its kernel may be built without", spoken, e.Version)
	}
	return nil
}

// Close ends the server. Its clients see a server that does not answer.
func (s *Server) Close() error {
	if err := write(filepath.Join(control, "threads"), "0\n"); err != nil {
		return fmt.Errorf("end the NFS server: %w", err)
	}
	return nil
}

// write writes a line in one call, as these files want it.
func write(name, line string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

func read(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(control, name))
	return strings.TrimSpace(string(b)), err
}
