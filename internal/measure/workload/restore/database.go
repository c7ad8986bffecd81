package restore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/account"
	"tare/internal/sys/proc"
	"tare/internal/sys/sql/postgres"
	"tare/internal/sys/sql/promise"
)

// The server's role and database. Only the trial can reach them.
const (
	pgUser     = "tare"
	pgDatabase = "postgres"
	pgSocket   = ".s.PGSQL.5432" // in the folder of the socket; the number is part of the name and not a port
)

// pgStart bounds how long a server may take to answer. An emulated machine takes half a minute.
const pgStart = 3 * time.Minute

// pgStop bounds the time in which a server shuts down: it writes a checkpoint first.
const pgStop = 30 * time.Second

// maxSocket is the longest path of a socket, with a reserve for the system.
const maxSocket = 100

// database is a PostgreSQL server of this trial.
type database struct {
	bin      string // folder of its programs
	pristine string // folder of the cluster that the session keeps
	data     string // folder of the copy that the server works on
	socket   string // folder
	psql     string // program of the environment; empty when tare loads itself
	as       account.User
	server   *proc.Stream
	lines    *lines
}

// pgFolders are the usual folders of PostgreSQL's programs outside PATH.
var pgFolders = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*",
	"/usr/lib/postgresql*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/pgsql/bin",
	"/usr/local/opt/postgresql*/bin"}

// findPostgres returns the folder with the newest server.
func findPostgres(given string) (string, error) {
	has := func(dir string) bool {
		for _, name := range []string{"initdb", "postgres"} {
			if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.IsDir() {
				return false
			}
		}
		return true
	}
	if given != "" {
		if !filepath.IsAbs(given) || !has(given) {
			return "", &record.Failure{Kind: "refused",
				Message: fmt.Sprintf("restore: postgres=%s must be the absolute path of a folder that contains "+
					"initdb and postgres", given)}
		}
		return given, nil
	}
	if path, err := proc.LookPath("postgres"); err == nil {
		// The target of a link is in the folder that has all of its programs.
		if target, err := filepath.EvalSymlinks(path); err == nil && has(filepath.Dir(target)) {
			return filepath.Dir(target), nil
		}
		if has(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	var found []string
	for _, pattern := range pgFolders {
		dirs, _ := filepath.Glob(pattern)
		for _, d := range dirs {
			if has(d) {
				found = append(found, d)
			}
		}
	}
	if len(found) == 0 {
		return "", &record.Failure{Kind: "refused",
			Message: fmt.Sprintf("restore: there is no PostgreSQL in this environment (neither in PATH nor in %s); "+
				"install it there (Debian: apt-get install postgresql), name its folder with postgres=, or use load=%s",
				strings.Join(pgFolders, ", "), loadNone)}
	}
	return slices.MaxFunc(found, func(a, b string) int { return pgVersion(a) - pgVersion(b) }), nil
}

// pgVersion reads the major version from a folder's name; 0 if it has none.
func pgVersion(dir string) int {
	digits := func(r rune) bool { return r < '0' || r > '9' }
	for _, f := range strings.FieldsFunc(dir, digits) {
		if n, err := strconv.Atoi(f); err == nil && n < 1000 {
			return n
		}
	}
	return 0
}

// startServer puts a new cluster into the folder of the trial and starts a server on it, untimed.
func (t *trial) startServer(ctx context.Context, b *workload.Bench) error {
	bin, err := findPostgres(t.pgFolder)
	if err != nil {
		return err
	}
	d := &database{bin: bin, lines: newLines("merged dump"), pristine: filepath.Join(b.Dir, clusterName),
		data: filepath.Join(t.path, "pg", "data")}
	if t.tools == environment {
		if d.psql = filepath.Join(bin, "psql"); !exists(d.psql) {
			if d.psql, err = findProgram("psql", "postgresql-client"); err != nil {
				return err
			}
		}
	}
	if err := d.choose(t.path); err != nil {
		return err
	}
	if err := d.folders(t, b); err != nil {
		return err
	}
	t.database = d
	t.later(d.stop)
	if err := d.furnish(ctx, b, t.buf); err != nil {
		return err
	}
	began := time.Now()
	if err := d.start(ctx); err != nil {
		return with(err, d.forget())
	}
	b.Note("server_ms", strconv.FormatInt(time.Since(began).Milliseconds(), 10))
	t.meter.servers = d.cpu
	promises := promise.Settings{Family: promise.PostgreSQL}
	version := ""
	err = d.talk(ctx, func(c *postgres.Conn) error {
		version = c.Setting("server_version")
		return c.Query([]byte(promise.Ask(promise.PostgreSQL)), &postgres.Result{Row: promises.Row})
	})
	b.Note("postgres", version)
	b.Note(promise.State, promises.Text())
	b.Note("postgres_user", d.as.Name)
	return err
}

// choose chooses the user that runs the server, whose files are below dir: PostgreSQL refuses to run as root.
func (d *database) choose(dir string) (err error) {
	d.as, err = account.Choose("postgres", "nobody")
	switch {
	case errors.Is(err, account.ErrNone):
		return &record.Failure{Kind: "refused",
			Message: fmt.Sprintf("restore: PostgreSQL does not run as root, and this environment has neither a user "+
				"postgres nor a user nobody; add one, or use load=%s", loadNone)}
	case errors.Is(err, errors.ErrUnsupported):
		return &record.Failure{Kind: "refused",
			Message: "restore: load=postgresql runs on Unix only; use load=none"}
	case err != nil:
		return err
	}
	return d.reachTo(dir)
}

// reachTo ensures that the server's user can reach a directory.
func (d *database) reachTo(dir string) error {
	err := d.as.ReachTo(dir)
	if closed, ok := errors.AsType[*account.ClosedError](err); ok {
		return &record.Failure{Kind: "refused",
			Message: fmt.Sprintf("restore: PostgreSQL's user %s cannot reach %s: use a work directory that others can "+
				"pass through (chmod o+x %s), or run the agent as a user other than root", d.as.Name, closed.Dir,
				closed.At)}
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// folders makes the server's folders. The socket's folder is in the environment's own work directory, because not every
// mount supports sockets. If its path is too long, the socket gets a folder elsewhere, which is removed with the
// server.
func (d *database) folders(t *trial, b *workload.Bench) error {
	if err := os.Mkdir(filepath.Dir(d.data), 0o755); err != nil {
		return fileio.Explain("create", filepath.Dir(d.data), err)
	}
	d.socket = filepath.Join(filepath.Dir(d.data), "socket")
	if b.Home != "" && b.Home != b.Dir {
		d.socket = filepath.Join(b.Home, "socket")
		if err := removeAll(d.socket); err != nil { // left by a trial that was killed
			return err
		}
	}
	if len(filepath.Join(d.socket, pgSocket)) > maxSocket {
		short, err := shortFolder([]string{os.TempDir(), "/tmp", "/run", "/var/tmp"})
		if err != nil {
			return err
		}
		d.socket = short
	}
	t.later(func() error { return removeAll(d.socket) })
	if err := d.own(d.socket); err != nil {
		return err
	}
	return d.reachTo(d.socket)
}

// shortFolder makes a folder with a path short enough for a socket, in the first directory that allows it.
func shortFolder(places []string) (string, error) {
	var errs []error
	for _, base := range places {
		if n := len(filepath.Join(base, "tare-pg-4294967295", pgSocket)); n > maxSocket {
			errs = append(errs, fmt.Errorf("in %s it is %d bytes long", base, n))
			continue
		}
		dir, err := os.MkdirTemp(base, "tare-pg-")
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", &record.Failure{Kind: "refused",
		Message: fmt.Sprintf("restore: the path of PostgreSQL's socket must not exceed %d bytes, and no directory is "+
			"short enough: %s; use a work directory with a shorter name, or make /tmp writable",
			maxSocket, strings.ReplaceAll(errors.Join(errs...).Error(), "\n", "; "))}
}

func (d *database) command(ctx context.Context, name string, args ...string) *proc.Cmd {
	cmd := proc.Command(ctx, append([]string{filepath.Join(d.bin, name)}, args...)...)
	cmd.Dir = "/" // a directory that the server's user can enter
	cmd.Env = []string{"PATH=" + d.bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=/"}
	return cmd
}

// settings are the server's. Those for durability keep their defaults; the others keep the server small and quiet.
func (d *database) settings() []string {
	return []string{
		"listen_addresses=", "unix_socket_directories=" + d.socket, "unix_socket_permissions=0700", "port=5432",
		"max_connections=10", "shared_buffers=64MB", "autovacuum=off", "logging_collector=off", "log_checkpoints=off",
	}
}

func (d *database) start(ctx context.Context) error {
	args := []string{"-D", d.data}
	for _, s := range d.settings() {
		args = append(args, "-c", s)
	}
	cmd := d.command(ctx, "postgres", args...)
	d.as.Become(cmd.SysProcAttr)
	server, err := proc.Start(cmd)
	if err != nil {
		return fmt.Errorf("restore: start PostgreSQL as user %s: %w", d.as.Name, err)
	}
	d.server = server
	var last error
	for deadline := time.Now().Add(pgStart); time.Now().Before(deadline); {
		if last = d.talk(ctx, func(*postgres.Conn) error { return nil }); last == nil {
			return nil
		}
		select {
		case <-server.Done():
			return d.failed("setup", fmt.Errorf("restore: PostgreSQL ended during its start: %v", server.Err()))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return d.failed("setup", fmt.Errorf("restore: PostgreSQL did not answer within %v: %w", pgStart, last))
}

// pgWords bounds the wait for the server's log entry about the end of one of its processes, of which the client learns
// first.
const pgWords = 30 * time.Second

// failed adds the end of the server's log as evidence, and its reason to the message.
func (d *database) failed(kind string, err error) error {
	log := proc.Printable(d.server.Diagnose())
	if lost(err) {
		for end := time.Now().Add(pgWords); reason(log) == "" &&
			time.Now().Before(end); log = proc.Printable(d.server.Diagnose()) {
			time.Sleep(20 * time.Millisecond)
		}
	}
	msg := err.Error()
	if why := reason(log); why != "" && !strings.Contains(msg, why) {
		msg += "; its log says: " + why
	}
	return &record.Failure{Kind: kind, Message: msg, Evidence: log}
}

// lost tells whether the server closed the connection unexpectedly.
func lost(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), "server closed the connection")
}

// reason finds the first error in a server's log: later ones are its consequences. A client that was refused during the
// start does not count.
func reason(log string) string {
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "the database system is ") {
			continue
		}
		for _, word := range []string{"PANIC: ", "FATAL: ", "server process (PID "} {
			if i := strings.Index(line, word); i >= 0 {
				return strings.Join(strings.Fields(line[i:]), " ")
			}
		}
	}
	return ""
}

// talk connects, calls do, and disconnects.
func (d *database) talk(ctx context.Context, do func(*postgres.Conn) error) error {
	c, err := postgres.Dial(ctx, postgres.Config{Network: "unix", Address: filepath.Join(d.socket, pgSocket),
		User: pgUser, Database: pgDatabase})
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.Interrupt)()
	return do(c)
}

// load loads the merged dump in one transaction, then writes a checkpoint.
func (d *database) load(ctx context.Context, path, tools string) error {
	var err error
	if tools == environment {
		err = d.loadByPsql(ctx, path)
	} else {
		err = d.loadOurselves(ctx, path)
	}
	if err == nil {
		err = d.talk(ctx, func(c *postgres.Conn) error { return c.Query([]byte("CHECKPOINT"), nil) })
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	hint := ""
	if v, on := fileio.Volume(d.data); v.Free >= 0 && v.Free < 64<<20 {
		hint = fmt.Sprintf("; %s has %d bytes free: use a smaller size or another work directory", on, v.Free)
	}
	return d.failed("measure", fmt.Errorf("restore: load the dump: %w%s", err, hint))
}

func (d *database) loadOurselves(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fileio.Explain("open", path, err)
	}
	defer f.Close()
	d.lines.reset(f)
	return d.talk(ctx, func(c *postgres.Conn) error { return script(c, d.lines) })
}

func (d *database) loadByPsql(ctx context.Context, path string) error {
	cmd := proc.Command(ctx, d.psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "--single-transaction", "-h", d.socket, "-p",
		"5432", "-U", pgUser, "-d", pgDatabase, "-f", path)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=/"}
	_, err := proc.RunCmd(cmd, nil)
	return err
}

// rows counts and hashes the rows of each table in the order of their keys.
func (d *database) rows() (count [tableCount]int64, digest [tableCount]string, err error) {
	err = d.talk(context.Background(), func(c *postgres.Conn) error {
		for i, table := range tables {
			h := sha256.New()
			sql := fmt.Sprintf("COPY (SELECT %s FROM %s ORDER BY id) TO STDOUT", table.columns, table.name)
			r := postgres.Result{Copy: func(row []byte) error {
				count[i]++
				h.Write(row)
				return nil
			}}
			if err := c.Query([]byte(sql), &r); err != nil {
				return err
			}
			digest[i] = hex.EncodeToString(h.Sum(nil))
		}
		return nil
	})
	return count, digest, err
}

// cpu is the CPU time of the server and of its processes for connections.
func (d *database) cpu() (time.Duration, error) { return proc.FamilyCPUTime(d.server.Pid()) }

// stop shuts the server down: it disconnects clients, but writes its data properly.
func (d *database) stop() error {
	if d.server == nil {
		return nil
	}
	defer d.server.Close()
	_ = d.server.Signal(os.Interrupt) // fails when it has ended
	select {
	case <-d.server.Done():
		return nil
	case <-time.After(pgStop):
		return d.server.Kill()
	}
}

// maxStatement bounds a statement that is not a COPY, in bytes.
const maxStatement = 1 << 20

// script runs a dump in one transaction. Statements end with a semicolon at the end of a line, as pg_dump writes them;
// text that contains such a line is not supported.
func script(c *postgres.Conn, dump *lines) error {
	if err := c.Query([]byte("BEGIN"), nil); err != nil {
		return err
	}
	var statement []byte
	for {
		line, err := dump.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if len(statement)+len(line) > maxStatement {
			return dump.wrong("the statement at this line is longer than %d bytes", maxStatement)
		}
		text := strings.TrimSpace(string(line))
		if len(statement) == 0 && (text == "" || strings.HasPrefix(text, "--")) {
			continue
		}
		if _, ok := copyTable(line); ok && len(statement) == 0 {
			at := dump.n
			if err := c.CopyIn([]byte(text), dump.copyRow); err != nil {
				return fmt.Errorf("COPY at line %d: %w", at, err)
			}
			continue
		}
		statement = append(statement, line...)
		if strings.HasSuffix(text, ";") {
			if err := c.Query(statement, nil); err != nil {
				return fmt.Errorf("statement that ends at line %d: %w", dump.n, err)
			}
			statement = statement[:0]
		}
	}
	if len(statement) > 0 {
		return errors.New("the dump ends in the middle of a statement")
	}
	return c.Query([]byte("COMMIT"), nil)
}

// copyRow returns the next row of a COPY, io.EOF behind the last.
func (l *lines) copyRow() ([]byte, error) {
	line, err := l.next()
	if err == io.EOF {
		return nil, l.wrong("the rows of a COPY have no end mark")
	}
	if err == nil && string(line) == string(endOfCopy) {
		return nil, io.EOF
	}
	return line, err
}
