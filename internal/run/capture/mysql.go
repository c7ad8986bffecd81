package capture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"tare/internal/measure/dbserver"
	"tare/internal/sys/sql/mysql"
)

// mysqlServer is MariaDB or MySQL.
type mysqlServer struct {
	*conn
	product dbserver.Product
	wrote   bool // the log that a capture turned on was still on when its settings were restored
}

// noPrivilege is the number of the error for a privilege that the user lacks (ER_SPECIFIC_ACCESS_DENIED_ERROR).
const noPrivilege = 1227

func newMySQL(ctx context.Context, t *Target, c *conn) (server, error) {
	s := &mysqlServer{conn: c, product: t.Product}
	_, err := s.rows(ctx, "SET SESSION sql_log_off = ON, SESSION long_query_time = 31536000, "+
		"SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'")
	if err == nil {
		// This changes nothing, but needs the privilege for all that follows.
		_, err = s.rows(ctx, "SET GLOBAL long_query_time = @@GLOBAL.long_query_time")
	}
	if e, ok := errors.AsType[*mysql.Error](err); ok && e.Number == noPrivilege {
		privilege := "SUPER"
		if t.Product == dbserver.MySQL {
			privilege = "SYSTEM_VARIABLES_ADMIN"
		}
		err = fmt.Errorf("user %q lacks the privilege %s, which changing the settings of a log needs: %w", t.User,
			privilege, err)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// far tells whether a file that is not here is on another machine, which a tunnel leads to: the server has made it.
func (s *mysqlServer) far() bool { return s.wrote }

func (s *mysqlServer) close() error { return s.conn.close() }

func (s *mysqlServer) alive(ctx context.Context) error {
	_, err := s.rows(ctx, "SELECT 1")
	return err
}

// variables returns settings by their names.
func (s *mysqlServer) variables(ctx context.Context, names ...string) (map[string]string, error) {
	return s.table(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('%s')", strings.Join(names, "','"))
}

// mysqlLog is a log of these servers.
type mysqlLog struct{ name, on, file, other string }

func logOf(slow bool) mysqlLog {
	if slow {
		return mysqlLog{"slow log", "slow_query_log", "slow_query_log_file", "general_log"}
	}
	return mysqlLog{"general log", "general_log", "general_log_file", "slow_query_log"}
}

func (s *mysqlServer) plan(ctx context.Context, p *Plan, name string) error {
	l := logOf(p.Slow)
	v, err := s.variables(ctx, "version", "hostname", "datadir", "log_output", l.on, l.file, l.other, "long_query_time",
		"min_examined_row_limit", "log_slow_rate_limit", "log_slow_filter")
	if err != nil {
		return err
	}
	p.Version = v["version"]
	if maria := strings.Contains(p.Version, "MariaDB"); maria != (s.product == dbserver.MariaDB) {
		return fmt.Errorf("the server is not %s: its version is %s", s.product, p.Version)
	}
	outputs := strings.Split(v["log_output"], ",")
	toFile := slices.Contains(outputs, "FILE")
	if v[l.on] == "ON" {
		if !toFile {
			return fmt.Errorf("the server keeps a %s in a table (log_output is %s), which this would disturb", l.name,
				v["log_output"])
		}
		if limit, err := strconv.ParseFloat(v["long_query_time"], 64); p.Slow && (err != nil || limit > 0) {
			return fmt.Errorf("the server keeps a slow log of its own, of what takes longer than %s s, which this "+
				"would disturb: capture the general log", v["long_query_time"])
		}
		p.Along, p.File = true, inside(v["datadir"], v[l.file])
		if here, err := os.Hostname(); err == nil && v["hostname"] != here { // a tunnel, or a container
			return unreadable(fmt.Errorf("%s is on %s, and this is %s", p.File, v["hostname"], here))
		}
		return reachable(p)
	}
	p.File = path.Join(v["datadir"], name+".log")
	p.Changes = append(p.Changes, Change{Name: l.file, From: v[l.file], To: p.File})
	if len(outputs) > 1 || !toFile {
		if v[l.other] == "ON" {
			return fmt.Errorf("%s is on and goes where log_output says, which is %s: to have the %s in a file, this "+
				"would have to be changed for both", l.other, v["log_output"], l.name)
		}
		p.Changes = append(p.Changes, Change{Name: "log_output", From: v["log_output"], To: "FILE"})
	}
	if p.Slow {
		p.Notes = append(p.Notes, "long_query_time holds for new connections: statements of those that exist are not "+
			"logged")
		for _, c := range []Change{{Name: "long_query_time", To: "0.000000"}, {Name: "min_examined_row_limit", To: "0"},
			{Name: "log_slow_rate_limit", To: "1"}, {Name: "log_slow_filter", To: ""}} {
			if from, ok := v[c.Name]; ok && from != c.To {
				c.From = from
				p.Changes = append(p.Changes, c)
			}
		}
	}
	p.Changes = append(p.Changes, Change{Name: l.on, From: "OFF", To: "ON"})
	p.Files = []string{p.File}
	return reachable(p)
}

// inside is the path of a server's file, which may be relative to its data directory.
func inside(dir, file string) string {
	if path.IsAbs(file) {
		return file
	}
	return path.Join(dir, file)
}

// reachable checks, as far as that can be seen before, that the file can be read here.
func reachable(p *Plan) error {
	_, err := os.Lstat(p.File)
	if !p.Along && errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(path.Dir(p.File))
	}
	if err != nil {
		return unreadable(err)
	}
	return nil
}

// unreadable says what to do about a log that cannot be read.
func unreadable(err error) error {
	return fmt.Errorf("the server's log cannot be read here: %w; run tare on the server's machine, as root or as the "+
		"server's user", err)
}

func (s *mysqlServer) count(ctx context.Context, p *Plan) (counts, error) {
	const text = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions','Bytes_received')"
	v, err := s.table(ctx, text)
	n := counts{statements: number(v["Questions"]), bytes: number(v["Bytes_received"]), own: float64(len(text) + 5),
		each: 18} // the id of the connection and the command
	if p.Slow {
		n.each = 220 // lines of facts
	}
	return n, err
}

func (s *mysqlServer) set(ctx context.Context, p *Plan) error {
	for _, c := range p.Changes {
		if err := s.assign(ctx, c.Name, c.To); err != nil {
			return err
		}
	}
	return nil
}

// assign sets a setting. Numbers are not accepted as texts.
func (s *mysqlServer) assign(ctx context.Context, name, value string) error {
	text := quote(value)
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		text = value
	}
	if _, err := s.rows(ctx, "SET GLOBAL %s = %s", name, text); err != nil {
		return fmt.Errorf("set %s to %q: %w", name, value, err)
	}
	return nil
}

func (s *mysqlServer) restore(ctx context.Context, changes []Change) (others []string, err error) {
	var names []string
	for _, c := range changes {
		names = append(names, c.Name)
	}
	now, err := s.variables(ctx, names...)
	if err != nil {
		return nil, err
	}
	var errs []error
	ours := len(changes) > 0 && now[changes[0].Name] == changes[0].To // the log's file
	s.wrote = ours && now[changes[len(changes)-1].Name] == "ON"
	for _, c := range slices.Backward(changes) {
		switch {
		case now[c.Name] == c.From: // the server was restarted, or it was never changed
		case now[c.Name] == c.To && (ours || c.To != "ON"):
			errs = append(errs, s.assign(ctx, c.Name, c.From))
		default:
			others = append(others, c.Name)
		}
	}
	return others, errors.Join(errs...)
}

func (s *mysqlServer) open(_ context.Context, file string) (part, error) {
	f, err := openFile(file)
	if err != nil {
		return f, unreadable(err)
	}
	return f, nil
}

// current is always the same: who rotates a log of MySQL's keeps its name.
func (s *mysqlServer) current(_ context.Context, file string) (string, error) { return file, nil }
