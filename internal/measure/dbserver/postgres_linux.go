package dbserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tare/internal/sys/proc"
	"tare/internal/sys/sql/postgres"
)

// postgresUser has all privileges; it connects without a password.
const postgresUser = "tare"

// postgresFolders are the folders of PostgreSQL's programs, by system.
var postgresFolders = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*",
	"/usr/lib/postgresql*/bin", "/usr/local/pgsql/bin"}

// findPostgres returns the directory with the programs of the newest version.
func findPostgres(given string) (string, error) {
	patterns := postgresFolders
	if given != "" {
		patterns = []string{given}
	}
	var found []string
	for _, pattern := range patterns {
		dirs, _ := filepath.Glob(pattern) // the patterns are well-formed
		for _, d := range dirs {
			if exists(filepath.Join(d, "initdb")) && exists(filepath.Join(d, "postgres")) {
				found = append(found, d)
			}
		}
	}
	if len(found) == 0 {
		return "", failure("refused", "", "start %s: its programs initdb and postgres are not in this environment "+
			"(searched: %s); install them there (Debian: apt-get install postgresql)", PostgreSQL,
			strings.Join(patterns, ", "))
	}
	return slices.MaxFunc(found, func(a, b string) int { return majorVersion(a) - majorVersion(b) }), nil
}

// majorVersion reads the major version from the name of a directory; 0 if it has none.
func majorVersion(dir string) int {
	for _, f := range strings.FieldsFunc(dir, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(f); err == nil && n < 1000 {
			return n
		}
	}
	return 0
}

func startPostgres(ctx context.Context, o Options) (_ Server, err error) {
	s := &server{product: o.Product}
	if o.Root != "" {
		return nil, failure("refused", "", "start %s: programs of another release are supported for MySQL only",
			o.Product)
	}
	bin, err := findPostgres(o.Programs)
	if err != nil {
		return nil, err
	}
	if err := s.choose("postgres"); err != nil {
		return nil, err
	}
	port := o.Port
	if port == 0 {
		port = 5432 // then it is only a part of the socket's name
	}
	if err := s.folders(o, ".s.PGSQL."+strconv.Itoa(port)); err != nil {
		return nil, err
	}
	data := filepath.Join(o.Dir, "data")
	if err := s.initialisePostgres(ctx, o, bin, data); err != nil {
		return nil, with(err, s.remove())
	}
	listen := ""
	if o.Port > 0 {
		listen = o.at()
	}
	argv := []string{filepath.Join(bin, "postgres"), "-D", data}
	if o.Copied {
		if argv, err = s.adopt(ctx, o, argv, data); err != nil {
			return nil, with(err, s.remove())
		}
	}
	if o.Open {
		hba := filepath.Join(o.Dir, "tmp", "pg_hba.conf")
		lines := "local all all trust\nhost all " + postgresUser + " all scram-sha-256\n"
		if err := os.WriteFile(hba, []byte(lines), 0o644); err != nil {
			return nil, with(fmt.Errorf("start %s: %w", o.Product, err), s.remove())
		}
		argv = append(argv, "-c", "hba_file="+hba, "-c", "password_encryption=scram-sha-256")
	}
	for _, setting := range append([]string{"listen_addresses=" + listen, "port=" + strconv.Itoa(port),
		"unix_socket_directories=" + filepath.Dir(s.listen), "unix_socket_permissions=0700", "logging_collector=off"},
		o.Settings...) {
		argv = append(argv, "-c", setting)
	}
	s.endpoint = Endpoint{Network: "unix", Address: s.socket, User: postgresUser, Database: "postgres", Port: o.Port}
	err = s.launch(ctx, s.command(ctx, o.Dir, argv...), func(ctx context.Context) (string, error) {
		c, err := postgres.Dial(ctx, postgres.Config{Network: "unix", Address: s.socket, User: postgresUser,
			Database: "postgres"})
		if err != nil {
			return "", err
		}
		defer c.Close()
		return c.Setting("server_version"), nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// initialisePostgres creates the data directory if it does not exist. It gets its name when it is complete.
func (s *server) initialisePostgres(ctx context.Context, o Options, bin, data string) error {
	if exists(data) {
		return s.ownAll(data)
	}
	half := data + ".new"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("start %s: %w", o.Product, err)
	}
	if err := s.own(half); err != nil {
		return err
	}
	_, err := proc.RunCmd(s.command(ctx, o.Dir, filepath.Join(bin, "initdb"), "--pgdata="+half,
		"--username="+postgresUser, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"), nil)
	if err != nil {
		return with(fmt.Errorf("start %s: create the data directory: %w", o.Product, err), os.RemoveAll(half))
	}
	return os.Rename(half, data)
}

// foreignFiles are those of a data directory that are read wherever the configuration files are: what ALTER SYSTEM has
// set, and what makes the server a standby or has it recover, the last one up to release 11.
var foreignFiles = []string{"postgresql.auto.conf", "standby.signal", "recovery.signal", "recovery.conf"}

// adopt prepares a copied data directory: it removes foreignFiles, creates the account postgresUser, because the names
// of the others are not known, and returns the command with configuration files that let it log in.
func (s *server) adopt(ctx context.Context, o Options, argv []string, data string) ([]string, error) {
	for _, name := range foreignFiles {
		if err := os.Remove(filepath.Join(data, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("start %s: %w", s.product, err)
		}
	}
	for _, f := range []struct{ setting, name, text string }{
		{"config_file", "postgresql.conf", ""}, {"ident_file", "pg_ident.conf", ""},
		{"hba_file", "pg_hba.conf", "local all all trust\nhost all all 127.0.0.1/32 trust\n"},
	} {
		path := filepath.Join(o.Dir, "tmp", f.name)
		if err := os.WriteFile(path, []byte(f.text), 0o644); err != nil {
			return nil, fmt.Errorf("start %s: %w", s.product, err)
		}
		argv = append(argv, "-c", f.setting+"="+path)
	}
	single := slices.Concat(argv[:1], []string{"--single"}, argv[1:], []string{"postgres"})
	// If the role exists, the server reports an error and continues.
	role := strings.NewReader("CREATE ROLE " + postgresUser + " SUPERUSER LOGIN\n")
	if _, err := proc.RunCmd(s.command(ctx, o.Dir, single...), role); err != nil {
		return nil, fmt.Errorf("start %s: prepare the copied data directory: %w", s.product, err)
	}
	return argv, nil
}
