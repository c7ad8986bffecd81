package capture

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"tare/internal/sys/sql/postgres"
)

// postgresServer is PostgreSQL.
type postgresServer struct {
	*conn
	away bool // its files are on another machine, or cannot be read here
}

// noPermission is the SQLSTATE for a privilege that the user lacks.
const noPermission = "42501"

func newPostgres(ctx context.Context, t *Target, c *conn) (server, error) {
	s := &postgresServer{conn: c}
	// It is one text, so that its end already holds for the logging of its beginning.
	super, err := s.value(ctx, "SET log_min_duration_statement = -1; SET log_statement = 'none'; "+
		"SET log_duration = off; SHOW is_superuser")
	e, refused := errors.AsType[*postgres.Error](err)
	if refused && e.Code == noPermission || err == nil && super != "on" {
		err = fmt.Errorf("user %q is not a superuser, which ALTER SYSTEM and reading the server's files need", t.User)
	}
	if err == nil {
		err = s.locate(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// locate finds out whether the server's files can be read here. Other files may have the same names, and a far server
// may have a loopback address, by a tunnel. The file compared has the server's process and its start.
func (s *postgresServer) locate(ctx context.Context) error {
	const name = "postmaster.pid"
	dir, err := s.value(ctx, "SHOW data_directory")
	if err != nil {
		return err
	}
	there, err := s.value(ctx, "SELECT pg_read_file('%s')", name)
	if err != nil {
		return err
	}
	here, err := os.ReadFile(path.Join(dir, name))
	s.away = err != nil || string(here) != there
	return nil
}

func (s *postgresServer) far() bool { return s.away }

func (s *postgresServer) close() error { return s.conn.close() }

func (s *postgresServer) alive(ctx context.Context) error {
	_, err := s.rows(ctx, "SELECT 1")
	return err
}

// pgSetting is a setting as new sessions have it.
type pgSetting struct {
	value  string
	source string // such as "configuration file"
}

func (s *postgresServer) settings(ctx context.Context) (map[string]pgSetting, error) {
	// Where a setting comes from is told of the session's own only once that is reset. It is one text, as in
	// newPostgres.
	rows, err := s.rows(ctx, "RESET log_min_duration_statement; SELECT name, reset_val, source FROM pg_settings; "+
		"SET log_min_duration_statement = -1")
	all := map[string]pgSetting{}
	for _, r := range rows {
		all[r[0]] = pgSetting{r[1], r[2]}
	}
	return all, err
}

// entries are the settings that ALTER SYSTEM has made.
func (s *postgresServer) entries(ctx context.Context) (map[string]string, error) {
	return s.table(ctx, `SELECT name, setting FROM pg_file_settings
		WHERE sourcefile = current_setting('data_directory') || '/postgresql.auto.conf' ORDER BY seqno`)
}

// logSettings are the settings that choose the logged statements. They are changed when the file is there, and restored
// while it still is, so that nothing gets into the server's usual log.
var logSettings = []string{"log_min_duration_statement", "log_connections", "log_disconnections"}

func (s *postgresServer) plan(ctx context.Context, p *Plan, name string) error {
	v, err := s.settings(ctx)
	if err != nil {
		return err
	}
	entries, err := s.entries(ctx)
	if err != nil {
		return err
	}
	p.Version = v["server_version"].value
	if v["logging_collector"].value != "on" {
		return errors.New("logging_collector is off, so that PostgreSQL keeps no log files; it can be turned on by a " +
			"restart only. Turn it on, or take the log that stands where PostgreSQL's standard error goes")
	}
	want := func(name, to string) {
		now, ok := v[name]
		if !ok || now.value == to {
			return
		}
		c := Change{Name: name, From: now.value, To: to}
		if entry, ok := entries[name]; ok {
			c.Entry = &entry
		}
		p.Changes = append(p.Changes, c)
	}
	for _, name := range logSettings {
		to := "on"
		if name == "log_min_duration_statement" {
			to = "0"
		}
		want(name, to)
	}
	want("log_parameter_max_length", "-1")
	if m := v["lc_messages"].value; m != "C" && m != "POSIX" && !strings.HasPrefix(m, "en") &&
		!strings.HasPrefix(m, "C.") {
		want("lc_messages", "C") // the log must be English
	}
	if len(p.Changes) == 0 && slices.Contains(strings.Split(v["log_destination"].value, ","), "csvlog") {
		p.Along = true
		p.File, err = s.current(ctx, "")
		return err
	}
	dir := inside(v["data_directory"].value, v["log_directory"].value)
	p.File = path.Join(dir, name+".csv")
	p.Files = []string{p.File, path.Join(dir, name+".log")} // the second has the lines that are no messages
	said := p.Changes
	p.Changes = nil
	want("log_destination", "csvlog")
	want("log_filename", name+".log")
	want("log_rotation_size", "0")
	p.Changes = append(p.Changes, said...)
	for _, c := range p.Changes {
		if source := v[c.Name].source; source == "command line" || source == "environment variable" {
			return fmt.Errorf("%s is %q, set by the server's %s; change that and restart the server", c.Name, c.From,
				source)
		}
	}
	own, err := s.value(ctx, `SELECT count(*) FROM pg_db_role_setting, unnest(setconfig) c
		WHERE c LIKE 'log_min_duration_statement=%%'`)
	if err != nil {
		return err
	}
	if own != "0" {
		p.Notes = append(p.Notes, own+" roles or databases have a log_min_duration_statement of their own, by which "+
			"their statements are logged")
	}
	p.Notes = append(p.Notes, "meanwhile the server's messages go to the captured log, and not to its usual one")
	return nil
}

func (s *postgresServer) count(ctx context.Context, _ *Plan) (counts, error) {
	rows, err := s.rows(ctx, `SELECT sum(xact_commit + xact_rollback), (SELECT coalesce(avg(length(query)), 100)
		FROM pg_stat_activity WHERE query <> '' AND pid <> pg_backend_pid()) FROM pg_stat_database`)
	if err != nil || len(rows) != 1 {
		return counts{}, err
	}
	return counts{statements: number(rows[0][0]), each: 210 + number(rows[0][1])}, nil // 210 for the other columns
}

func (s *postgresServer) set(ctx context.Context, p *Plan) error {
	where := slices.IndexFunc(p.Changes, func(c Change) bool { return slices.Contains(logSettings, c.Name) })
	if where < 0 {
		where = len(p.Changes)
	}
	if err := s.alter(ctx, p.Changes[:where]); err != nil {
		return err
	}
	if len(p.Files) > 0 {
		err := until(ctx, serverTimeout, func() (bool, error) {
			n, err := s.fileSize(ctx, p.File)
			return n >= 0, err
		})
		if err != nil {
			return fmt.Errorf("the server does not begin to write %s: %w", p.File, err)
		}
	}
	return s.alter(ctx, p.Changes[where:])
}

// alter sets settings and waits until they are in force.
func (s *postgresServer) alter(ctx context.Context, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	for _, c := range changes {
		if _, err := s.rows(ctx, "ALTER SYSTEM SET %s = %s", c.Name, quote(c.To)); err != nil {
			return fmt.Errorf("set %s to %q: %w", c.Name, c.To, err)
		}
	}
	return s.reload(ctx, func(now map[string]pgSetting) error {
		for _, c := range changes {
			if is := now[c.Name]; is.value != c.To && !ofBackends(c.Name) {
				return fmt.Errorf("%s is still %q; its source is %s", c.Name, is.value, is.source)
			}
		}
		return nil
	})
}

// ofBackends tells whether a setting never changes for a session that exists.
func ofBackends(name string) bool { return name == "log_connections" || name == "log_disconnections" }

// reload has the server read its files, and waits until it has.
func (s *postgresServer) reload(ctx context.Context, check func(map[string]pgSetting) error) error {
	if _, err := s.rows(ctx, "SELECT pg_reload_conf()"); err != nil {
		return err
	}
	var last error
	err := until(ctx, serverTimeout, func() (bool, error) {
		now, err := s.settings(ctx)
		if err != nil {
			return false, err
		}
		last = check(now)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("change settings: %w", last)
	}
	return err
}

func (s *postgresServer) restore(ctx context.Context, changes []Change) (others []string, err error) {
	entries, err := s.entries(ctx)
	if err != nil {
		return nil, err
	}
	isWhat := func(c Change) bool { return slices.Contains(logSettings, c.Name) }
	for _, first := range []bool{true, false} {
		var back []Change
		for _, c := range changes {
			now, ok := entries[c.Name]
			switch {
			case isWhat(c) != first:
			case ok && now == c.To:
				back = append(back, c)
			case ok != (c.Entry != nil) || ok && now != *c.Entry:
				others = append(others, c.Name)
			}
		}
		if err := s.takeBack(ctx, back); err != nil {
			return others, err
		}
	}
	return others, nil
}

// takeBack restores settings and waits until that is in force and all statements logged before are written.
func (s *postgresServer) takeBack(ctx context.Context, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	for _, c := range changes {
		text := "RESET " + c.Name
		if c.Entry != nil {
			text = "SET " + c.Name + " = " + quote(*c.Entry)
		}
		if _, err := s.rows(ctx, "ALTER SYSTEM %s", text); err != nil {
			return fmt.Errorf("restore %s: %w", c.Name, err)
		}
	}
	err := s.reload(ctx, func(now map[string]pgSetting) error {
		for _, c := range changes {
			if is := now[c.Name]; is.value == c.To && is.value != c.From && !ofBackends(c.Name) {
				return fmt.Errorf("%s is still %q; its source is %s", c.Name, is.value, is.source)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return wait(ctx, settle)
}

// current is the path of the file that the server writes in CSV.
func (s *postgresServer) current(ctx context.Context, _ string) (string, error) {
	return s.value(ctx, `SELECT CASE WHEN f LIKE '/%%' THEN f ELSE current_setting('data_directory') || '/' || f END
		FROM pg_current_logfile('csvlog') f`)
}

// open opens the file itself where it can be read here, or else has the server read it.
func (s *postgresServer) open(ctx context.Context, file string) (part, error) {
	if !s.away {
		f, err := openFile(file)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return f, err
		}
	}
	n, err := s.fileSize(ctx, file)
	if err == nil && n < 0 {
		err = fmt.Errorf("the server has no file %s", file)
	}
	return part{ReaderAt: &remote{s, file}, path: file, Closer: io.NopCloser(nil),
		size: func(ctx context.Context) (int64, error) { return s.fileSize(ctx, file) }}, err
}

// fileSize is the size of a file of the server's in bytes, -1 if there is none.
func (s *postgresServer) fileSize(ctx context.Context, file string) (int64, error) {
	text, err := s.value(ctx, "SELECT coalesce((pg_stat_file(%s, true)).size, -1)", quote(file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// remote is a file that the server reads.
type remote struct {
	s    *postgresServer
	path string
}

// remoteChunk bounds one read of a file through the server, in bytes.
const remoteChunk = 1 << 20

func (r *remote) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		text, err := r.s.value(context.Background(), "SELECT encode(pg_read_binary_file(%s, %d, %d), 'hex')",
			quote(r.path), at+int64(n), min(len(p)-n, remoteChunk))
		if err != nil {
			return n, err
		}
		b, err := hex.DecodeString(text)
		if err != nil {
			return n, err
		}
		if len(b) == 0 {
			return n, io.EOF
		}
		n += copy(p[n:], b)
	}
	return n, nil
}
