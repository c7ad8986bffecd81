package dbserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tare/internal/sys/proc"
)

// startTime is the limit for the time to create a data directory and to start the server. An emulated machine needs
// minutes.
const startTime = 5 * time.Minute

// maxSocket is the limit for the path of a socket, in bytes. That of Linux is 107.
const maxSocket = 100

// Start starts a server and waits until it answers. If there is no data directory yet, it creates one, which takes some
// seconds. ctx limits the start only.
func Start(ctx context.Context, o Options) (Server, error) {
	if !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("start %s: %q is not an absolute path", o.Product, o.Dir)
	}
	for _, s := range o.Settings {
		if name, _, ok := strings.Cut(s, "="); !ok || name == "" || strings.ContainsAny(s, "\n\x00") {
			return nil, fmt.Errorf("start %s: %q is not a setting: use name=value", o.Product, s)
		}
	}
	ctx, cancel := proc.WithPatience(ctx, startTime)
	defer cancel()
	switch o.Product {
	case MariaDB, MySQL:
		return startMySQL(ctx, o)
	case PostgreSQL:
		return startPostgres(ctx, o)
	}
	return nil, fmt.Errorf("start %q: unknown product: use %s, %s or %s", o.Product, MariaDB, MySQL, PostgreSQL)
}

// server is the common part of all products.
type server struct {
	product  Product
	as       account
	socket   string // its path
	process  *proc.Stream
	version  string
	endpoint Endpoint
	remove   func() error // removes all but the data
}

func (s *server) Endpoint() Endpoint    { return s.endpoint }
func (s *server) Version() string       { return s.version }
func (s *server) Account() string       { return s.as.name }
func (s *server) Pid() int              { return s.process.Pid() }
func (s *server) Done() <-chan struct{} { return s.process.Done() }
func (s *server) Log() string           { return proc.Printable(s.process.Diagnose()) }

// folders creates the server's directories and chooses the path of the socket. It removes the remains of a server that
// was killed, except the data.
func (s *server) folders(o Options, socket string) error {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return fmt.Errorf("start %s: %w", s.product, err)
	}
	base := o.Dir
	if o.SocketDir != "" {
		base = o.SocketDir
	}
	dir := filepath.Join(base, "socket")
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("start %s: %w", s.product, err)
	}
	if len(filepath.Join(dir, socket)) > maxSocket {
		var err error
		if dir, err = s.shortFolder(socket); err != nil {
			return err
		}
	}
	s.socket = filepath.Join(dir, socket)
	temp := filepath.Join(o.Dir, "tmp")
	s.remove = func() error { return errors.Join(os.RemoveAll(dir), os.RemoveAll(temp)) }
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("start %s: %w", s.product, err)
	}
	for _, d := range []string{dir, temp} {
		if err := s.own(d); err != nil {
			return with(err, s.remove())
		}
	}
	return nil
}

// shortFolder creates a directory whose path is short enough for a socket.
func (s *server) shortFolder(socket string) (string, error) {
	var errs []error
	for _, base := range []string{os.TempDir(), "/tmp", "/run", "/var/tmp"} {
		if n := len(filepath.Join(base, "tare-db-4294967295", socket)); n > maxSocket {
			errs = append(errs, fmt.Errorf("below %s it has %d bytes", base, n))
			continue
		}
		dir, err := os.MkdirTemp(base, "tare-db-")
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", failure("refused", "", "start %s: the path of its socket can have %d bytes, and there is no directory "+
		"for a short path: %s; give the environment a work directory with a shorter path, or a writable /tmp",
		s.product, maxSocket, strings.ReplaceAll(errors.Join(errs...).Error(), "\n", "; "))
}

// own creates a directory if it does not exist, gives it to the server's account, and ensures that it can be reached.
func (s *server) own(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("start %s: %w", s.product, err)
	}
	if err := s.as.give(path); err != nil {
		if !errors.Is(err, os.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("start %s: %w", s.product, err)
		}
		return failure("refused", "", "start %s: the owner of %s cannot be changed to user %s: %v; give the "+
			"environment a work directory on its own disk, or run the agent as a user other than root",
			s.product, path, s.as.name, err)
	}
	return s.as.reachTo(path)
}

// ownAll gives a directory and its contents to the server's account if they have another owner, for example because
// they were copied.
func (s *server) ownAll(path string) error {
	if st, err := os.Stat(path); err != nil || !s.as.change || st.Sys().(*syscall.Stat_t).Uid == s.as.uid {
		return with(s.own(path), err)
	}
	// The server's account may have created links there; os.Root does not follow them out of the directory.
	root, err := os.OpenRoot(path)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.product, err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && name != "." {
			err = root.Lchown(name, int(s.as.uid), int(s.as.gid))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("start %s: give its data to user %s: %w", s.product, s.as.name, err)
	}
	return s.own(path) // the last step: the owner of the directory shows that all is done
}

// with joins two errors. If other is nil, err keeps its type, which callers look at.
func with(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}

// command prepares a program that runs as the server's account with a minimal environment.
func (s *server) command(ctx context.Context, dir string, argv ...string) *proc.Cmd {
	cmd := proc.Command(ctx, argv...)
	cmd.Dir = "/" // the account may not have access to the current directory
	temp := filepath.Join(dir, "tmp")
	cmd.Env = []string{"PATH=" + filepath.Dir(argv[0]) + ":/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC",
		"HOME=" + temp, "TMPDIR=" + temp}
	s.as.become(cmd)
	return cmd
}

// launch starts the server and waits until ask, which returns the server's version, succeeds.
func (s *server) launch(ctx context.Context, cmd *proc.Cmd, ask func(context.Context) (string, error)) error {
	process, err := proc.Start(cmd)
	if err != nil {
		return fmt.Errorf("start %s as user %s: %w", s.product, s.as.name, err)
	}
	s.process = process
	var last error
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if s.version, last = ask(ctx); last == nil {
			return nil
		}
		select {
		case <-process.Done():
			log := s.Log()
			err = failure("setup", log, "start %s: the server ended during its start: %v%s", s.product, process.How(),
				why(log))
		case <-ctx.Done():
			log := s.Log()
			err = failure("setup", log, "start %s: the server does not answer: %v: %v%s", s.product,
				context.Cause(ctx), last, why(log))
		case <-time.After(wait):
			continue
		}
		return with(err, s.kill())
	}
}

// kill ends the server at once and removes all but its data.
func (s *server) kill() error {
	if s.process != nil {
		_ = s.process.Kill() // fails when it has just ended
		<-s.process.Done()
		_ = s.process.Close()
	}
	return s.remove()
}

// Stop shuts the server down.
func (s *server) Stop(ctx context.Context) error {
	if p, err := os.FindProcess(s.process.Pid()); err == nil {
		_ = p.Signal(s.leave())
	}
	select {
	case <-s.process.Done():
	case <-ctx.Done():
	}
	return s.kill()
}

// leave returns the signal for a fast and clean shutdown.
func (s *server) leave() os.Signal {
	if s.product == PostgreSQL {
		return syscall.SIGINT // on SIGTERM it waits for its clients
	}
	return syscall.SIGTERM
}
