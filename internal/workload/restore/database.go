package restore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/proc"
	"tare/internal/record"
	"tare/internal/workload"
	"tare/internal/workload/file"
)

// The server's role and database. Nobody but the trial reaches them.
const (
	pgUser     = "tare"
	pgDatabase = "postgres"
	pgSocket   = ".s.PGSQL.5432" // in the folder of the socket; the number belongs to the name and is no port
)

// pgStart bounds how long a server may take to answer. An emulated machine takes half a minute.
const pgStart = 3 * time.Minute

// pgStop is how long a server may take to shut down: it writes a checkpoint first.
const pgStop = 30 * time.Second

// maxSocket is the longest path of a socket, less what the system may need of it.
const maxSocket = 100

// database is a PostgreSQL server of this trial's own.
type database struct {
	bin    string // folder of its programs
	data   string
	socket string // folder
	psql   string // program of the environment; empty when tare loads itself
	as     account
	server *proc.Stream
	lines  *lines
}

// pgFolders are where systems put PostgreSQL's programs, beside PATH.
var pgFolders = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*", "/usr/lib/postgresql*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/pgsql/bin", "/usr/local/opt/postgresql*/bin"}

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
			return "", &record.Failure{Kind: "refused", Message: fmt.Sprintf("restore: postgres=%s is no absolute path of a folder with initdb and postgres in it", given)}
		}
		return given, nil
	}
	if path, err := proc.LookPath("postgres"); err == nil {
		// Behind a link lies the folder that has all of its programs.
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
		return "", &record.Failure{Kind: "refused", Message: fmt.Sprintf("restore: there is no PostgreSQL in this environment (not in PATH, nor in %s); install it there (Debian: apt-get install postgresql), name its folder with postgres=, or use load=%s", strings.Join(pgFolders, ", "), loadNone)}
	}
	slices.SortStableFunc(found, func(a, b string) int { return pgVersion(b) - pgVersion(a) })
	return found[0], nil
}

// pgVersion reads the major version from a folder's name; 0 when it is not there.
func pgVersion(dir string) int {
	digits := func(r rune) bool { return r < '0' || r > '9' }
	for _, f := range strings.FieldsFunc(dir, digits) {
		if n, err := strconv.Atoi(f); err == nil && n < 1000 {
			return n
		}
	}
	return 0
}

// startServer makes a new cluster in the folder of the trial and starts a server on it, untimed.
func (t *trial) startServer(ctx context.Context, b *workload.Bench) error {
	bin, err := findPostgres(t.pgFolder)
	if err != nil {
		return err
	}
	d := &database{bin: bin, lines: newLines("merged dump"), data: filepath.Join(t.path, "pg", "data"), socket: filepath.Join(t.path, "pg", "socket")}
	if t.tools == environment {
		if d.psql = filepath.Join(bin, "psql"); !exists(d.psql) {
			if d.psql, err = findProgram("psql", "postgresql-client"); err != nil {
				return err
			}
		}
	}
	if d.as, err = serverAccount(t.path); err != nil {
		return err
	}
	if err := d.folders(t); err != nil {
		return err
	}
	t.database = d
	t.later(d.stop)
	if err := d.initialise(ctx); err != nil {
		return err
	}
	if err := d.start(ctx); err != nil {
		return err
	}
	t.meter.servers = d.cpu
	version, err := d.version(ctx)
	b.Note("postgres", version)
	b.Note("postgres_user", d.as.name)
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// folders makes the server's folders. A socket's path must be short; where the cell's is not, the socket has a folder of
// its own in the system's directory for such things, removed with the server.
func (d *database) folders(t *trial) error {
	if len(filepath.Join(d.socket, pgSocket)) > maxSocket {
		short, err := os.MkdirTemp("", "tare-pg-")
		if err != nil {
			return fmt.Errorf("make a folder for the server's socket: %w", err)
		}
		d.socket = short
		t.later(func() error { return removeAll(short) })
	}
	for _, dir := range []string{filepath.Dir(d.data), d.data, d.socket} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return file.Explain("create", dir, err)
		}
		if err := d.as.give(dir); err != nil {
			return file.Explain("give the server", dir, err)
		}
	}
	return nil
}

func (d *database) command(ctx context.Context, name string, args ...string) *proc.Cmd {
	cmd := proc.Command(ctx, append([]string{filepath.Join(d.bin, name)}, args...)...)
	cmd.Dir = "/" // where the server's user may be
	cmd.Env = []string{"PATH=" + d.bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=/"}
	return cmd
}

func (d *database) initialise(ctx context.Context) error {
	cmd := d.command(ctx, "initdb", "--pgdata="+d.data, "--username="+pgUser, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
	d.as.become(cmd)
	if _, err := proc.RunCmd(cmd, nil); err != nil {
		f := &record.Failure{Kind: "setup", Message: fmt.Sprintf("restore: make a database cluster as user %s: %v", d.as.name, err)}
		if x, ok := errors.AsType[*proc.ExitError](err); ok {
			f.Evidence = x.Stderr
		}
		return f
	}
	return nil
}

// settings are the server's. What decides durability is left as it comes; the rest keeps it small and quiet.
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
	d.as.become(cmd)
	server, err := proc.Start(cmd)
	if err != nil {
		return fmt.Errorf("restore: start PostgreSQL as user %s: %w", d.as.name, err)
	}
	d.server = server
	var last error
	for deadline := time.Now().Add(pgStart); time.Now().Before(deadline); {
		if last = d.with(ctx, func(*client) error { return nil }); last == nil {
			return nil
		}
		select {
		case <-server.Done():
			return d.failed("setup", fmt.Errorf("restore: PostgreSQL ended instead of starting: %v", server.Err()))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return d.failed("setup", fmt.Errorf("restore: PostgreSQL did not answer within %v: %w", pgStart, last))
}

// failed adds the end of the server's log.
func (d *database) failed(kind string, err error) error {
	return &record.Failure{Kind: kind, Message: err.Error(), Evidence: proc.Printable(d.server.Diagnose())}
}

// with connects, calls do, and takes leave.
func (d *database) with(ctx context.Context, do func(*client) error) error {
	conn, err := dialUnix(filepath.Join(d.socket, pgSocket))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	c, err := newClient(conn, pgUser, pgDatabase)
	if err != nil {
		return err
	}
	if err := do(c); err != nil {
		return err
	}
	return c.message('X', nil)
}

func (d *database) version(ctx context.Context) (version string, err error) {
	err = d.with(ctx, func(c *client) error {
		return c.copyOut("COPY (SELECT current_setting('server_version')) TO STDOUT", func(row []byte) error {
			version = strings.TrimSpace(string(row))
			return nil
		})
	})
	return version, err
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
		err = d.with(ctx, func(c *client) error { return c.exec("CHECKPOINT") })
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	hint := ""
	if v, on := file.Volume(d.data); v.Free >= 0 && v.Free < 64<<20 {
		hint = fmt.Sprintf("; %s has %d bytes free: give a smaller size or another work directory", on, v.Free)
	}
	return d.failed("measure", fmt.Errorf("restore: load the dump: %w%s", err, hint))
}

func (d *database) loadOurselves(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return file.Explain("open", path, err)
	}
	defer f.Close()
	d.lines.reset(f)
	return d.with(ctx, func(c *client) error { return c.script(d.lines) })
}

func (d *database) loadByPsql(ctx context.Context, path string) error {
	cmd := proc.Command(ctx, d.psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "--single-transaction", "-h", d.socket, "-p", "5432", "-U", pgUser, "-d", pgDatabase, "-f", path)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=/"}
	_, err := proc.RunCmd(cmd, nil)
	return err
}

// rows counts and sums up the rows of each table in the order of their keys.
func (d *database) rows() (count [tableCount]int64, digest [tableCount]string, err error) {
	err = d.with(context.Background(), func(c *client) error {
		for i, table := range tables {
			h := sha256.New()
			sql := fmt.Sprintf("COPY (SELECT %s FROM %s ORDER BY id) TO STDOUT", table.columns, table.name)
			err := c.copyOut(sql, func(row []byte) error {
				count[i]++
				h.Write(row)
				return nil
			})
			if err != nil {
				return err
			}
			digest[i] = hex.EncodeToString(h.Sum(nil))
		}
		return nil
	})
	return count, digest, err
}

// stop shuts the server down: at once as far as its clients go, but with its data in order.
func (d *database) stop() error {
	if d.server == nil {
		return nil
	}
	defer d.server.Close()
	if p, err := os.FindProcess(d.server.Pid()); err == nil {
		_ = p.Signal(os.Interrupt)
	}
	select {
	case <-d.server.Done():
		return nil
	case <-time.After(pgStop):
		return d.server.Kill()
	}
}
