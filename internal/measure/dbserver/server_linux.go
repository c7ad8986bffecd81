package dbserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/record"
	"tare/internal/sys/account"
	"tare/internal/sys/proc"
	"tare/internal/sys/sock"
	"tare/internal/sys/sql"
)

// startTime is the limit for the time to create a data directory and to start the server. An emulated machine needs
// minutes.
const startTime = 5 * time.Minute

// remainTime bounds the wait of a start for the processes of a PostgreSQL that was killed. They end a moment after
// their parent, on a busy disk some seconds, and until then no other server may use the data.
const remainTime = time.Minute

// remains tells whether PostgreSQL's log says that it found such processes.
func remains(log []byte) bool {
	return bytes.Contains(log, []byte("pre-existing shared memory")) ||
		bytes.Contains(log, []byte("another postmaster (PID"))
}

// Start starts a server and waits until it answers. If there is no data directory yet, it creates one, which takes some
// seconds. ctx limits the start only.
func Start(ctx context.Context, o Options) (Server, error) {
	if !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("start %s: %q is not an absolute path", o.Product, o.Dir)
	}
	for _, s := range o.Settings {
		if name, _, ok := strings.Cut(s, "="); !ok || name == "" || strings.ContainsAny(s, "\n\x00") {
			return nil, fmt.Errorf("start %s: %q is not a setting: use name=value", o.Product, s)
		} else if o.Open && strings.Contains(strings.ToLower(name), "grant") {
			return nil, failure("refused", "", "start %s: with the setting %s it would be open to everybody", o.Product,
				s)
		}
	}
	if o.Open {
		if o.Copied {
			return nil, failure("refused", "", "start %s: it would be open to everybody, because the accounts of a "+
				"data directory are not known: load a dump (data=FILE.sql) for a load from elsewhere", o.Product)
		}
	}
	ctx, cancel := proc.WithTimeout(ctx, startTime)
	defer cancel()
	if !o.Open {
		return start(ctx, o)
	}
	for try := 1; ; try++ {
		port, err := findPort()
		if err != nil {
			return nil, fmt.Errorf("start %s: find a port: %w", o.Product, err)
		}
		o.Port = port
		s, err := start(ctx, o)
		if err == nil && taken(s.Log()) { // PostgreSQL does without one of its addresses
			err = with(failure("setup", s.Log(), "start %s: port %d is in use", o.Product, port), s.Stop(ctx))
		}
		if err == nil {
			return s, nil
		}
		f, ok := errors.AsType[*record.Failure](err)
		if !ok || !taken(f.Evidence) || try == portTries {
			return nil, err
		}
	}
}

// portTries bounds the starts of a server that is open, each with another port. Somebody may take the one that was
// found free before the server does.
const portTries = 5

// findPort finds a port that is free at all addresses.
var findPort = func() (int, error) {
	fd, port, err := sock.Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), 0))
	if err == nil {
		sock.Close(fd)
	}
	return port, err
}

// taken tells whether a log says that a port is in use.
func taken(log string) bool { return strings.Contains(log, "ddress already in use") }

func start(ctx context.Context, o Options) (Server, error) {
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
	as       account.User
	socket   string // its path
	listen   string // its path as the server is told
	process  *proc.Stream
	version  string
	endpoint Endpoint
	remove   func() error // removes all but the data
	// inherited are the directories that the server has as descriptors, the first as 3.
	inherited []*os.File
}

func (s *server) Endpoint() Endpoint    { return s.endpoint }
func (s *server) Version() string       { return s.version }
func (s *server) Account() string       { return s.as.Name }
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
	s.socket = filepath.Join(dir, socket)
	s.listen = s.socket
	temp := filepath.Join(o.Dir, "tmp")
	s.remove = func() error {
		for _, f := range s.inherited {
			_ = f.Close() // it was only opened for its path
		}
		s.inherited = nil
		return errors.Join(os.RemoveAll(dir), os.RemoveAll(temp))
	}
	if err := os.RemoveAll(temp); err != nil {
		return fmt.Errorf("start %s: %w", s.product, err)
	}
	for _, d := range []string{dir, temp} {
		if err := s.own(d); err != nil {
			return with(err, s.remove())
		}
	}
	if len(s.socket) <= sql.MaxPath {
		return nil
	}
	short, err := s.inherit(dir)
	if err != nil {
		return with(err, s.remove())
	}
	s.listen = filepath.Join(short, socket)
	return nil
}

// inherit returns a path of a directory that is valid in the server only: one of a descriptor that it inherits. It is
// short, and nothing but the directory itself has to let the server in.
func (s *server) inherit(dir string) (string, error) {
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", fmt.Errorf("start %s: %w", s.product, err)
	}
	s.inherited = append(s.inherited, f)
	return fmt.Sprintf("/proc/self/fd/%d", 2+len(s.inherited)), nil // the first of ExtraFiles is 3
}

// own creates a directory if it does not exist, gives it to the server's account, and ensures that it can be reached.
func (s *server) own(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("start %s: %w", s.product, err)
	}
	if err := s.as.Give(path); err != nil {
		if !errors.Is(err, os.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("start %s: %w", s.product, err)
		}
		return failure("refused", "", "start %s: the owner of %s cannot be changed to user %s: %v; give the "+
			"environment a work directory on its own disk, or run the agent as a user other than root",
			s.product, path, s.as.Name, err)
	}
	return s.reachTo(path)
}

// choose chooses the user that the server runs as.
func (s *server) choose(name string) (err error) {
	if s.as, err = account.Choose(name, "nobody"); errors.Is(err, account.ErrNone) {
		return failure("refused", "", "start %s: it does not run as root, and this environment has neither a user %s "+
			"nor a user nobody; add one of them", s.product, name)
	}
	return err
}

// reachTo ensures that the server can reach a directory.
func (s *server) reachTo(path string) error {
	err := s.as.ReachTo(path)
	if closed, ok := errors.AsType[*account.ClosedError](err); ok {
		return failure("refused", "", "user %s, which runs the database server, cannot reach %s: give the environment "+
			"a work directory that other users can enter (chmod o+x %s), or run the agent as a user other than root",
			s.as.Name, closed.Dir, closed.At)
	}
	return err
}

// ownAll gives a directory and its contents to the server's account if they have another owner, for example because
// they were copied.
func (s *server) ownAll(path string) error {
	if st, err := os.Stat(path); err != nil || s.as.Owns(st) {
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
			err = s.as.GiveIn(root, name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("start %s: give its data to user %s: %w", s.product, s.as.Name, err)
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
	s.as.Become(cmd.SysProcAttr)
	return cmd
}

// launch starts the server and waits until ask, which returns the server's version, succeeds. A PostgreSQL that finds
// processes of a killed one in its data directory is started again until these have ended, for remainTime at most.
func (s *server) launch(ctx context.Context, cmd *proc.Cmd, ask func(context.Context) (string, error)) error {
	end := time.Now().Add(remainTime)
again:
	for {
		next := proc.Command(context.WithoutCancel(ctx), cmd.Args...)
		next.Dir, next.Env, next.SysProcAttr, next.ExtraFiles = cmd.Dir, cmd.Env, cmd.SysProcAttr, s.inherited
		process, err := proc.Start(next)
		if err != nil {
			return fmt.Errorf("start %s as user %s: %w", s.product, s.as.Name, err)
		}
		s.process = process
		var last error
		for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
			if s.version, last = ask(ctx); last == nil {
				return nil
			}
			select {
			case <-process.Done():
				if time.Now().Before(end) && remains(process.Stderr()) {
					_ = process.Close() // it has ended
					time.Sleep(wait)
					continue again
				}
				err = failure("setup", s.Log(), "start %s: the server ended during its start: %v%s", s.product,
					process.How(), why(process.Stderr()))
			case <-ctx.Done():
				err = failure("setup", s.Log(), "start %s: the server does not answer: %v: %v%s", s.product,
					context.Cause(ctx), last, why(process.Stderr()))
			case <-time.After(wait):
				continue
			}
			return with(err, s.kill())
		}
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
	_ = s.process.Signal(s.leave()) // fails when it has ended
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
