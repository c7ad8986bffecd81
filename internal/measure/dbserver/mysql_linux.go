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
	"tare/internal/sys/sql/mysql"
)

// mysqlFolders are the usual directories of the programs of MariaDB and MySQL, besides PATH.
var mysqlFolders = []string{"/usr/sbin", "/usr/bin", "/usr/libexec", "/usr/local/mysql/bin", "/usr/local/sbin",
	"/usr/local/libexec"}

// programs are the programs of MariaDB or MySQL and the options to run them.
type programs struct {
	daemon  string
	install string   // mariadb-install-db; "" for MySQL, whose server does this itself
	loader  []string // the command that runs a program of Options.Root
	where   []string // options with the paths of the server's files
}

// findMySQL finds the programs.
func findMySQL(ctx context.Context, o Options) (p programs, err error) {
	names, folders, pack := []string{"mariadbd", "mysqld"}, mysqlFolders, "mariadb-server"
	if o.Product == MySQL {
		names, pack = names[1:], "mysql-server"
	}
	if o.Root != "" && o.Product == MariaDB {
		return p, failure("refused", "", "start %s: programs of another release are supported for %s only", o.Product,
			MySQL)
	}
	if o.Root != "" {
		if p.loader, p.where, err = foreign(o.Root); err != nil {
			return p, failure("refused", "", "start %s: %v", o.Product, err)
		}
		folders = []string{filepath.Join(o.Root, "usr/sbin"), filepath.Join(o.Root, "usr/bin")}
	}
	if o.Programs != "" {
		folders = []string{o.Programs}
	}
	other := ""
	for _, name := range names {
		for _, path := range candidates(name, folders, o) {
			maria, err := p.isMariaDB(ctx, path)
			if err != nil {
				other = fmt.Sprintf("; %s does not print its version: %v", path, err)
				continue
			}
			if maria != (o.Product == MariaDB) {
				other = fmt.Sprintf("; %s is the other product", path)
				continue
			}
			p.daemon = path
			if !maria {
				return p, nil
			}
			for _, name := range []string{"mariadb-install-db", "mysql_install_db"} {
				for _, path := range candidates(name, append(folders, filepath.Join(filepath.Dir(path), "../bin")), o) {
					p.install = path
					return p, nil
				}
			}
			other = fmt.Sprintf("; mariadb-install-db of %s is missing", path)
		}
	}
	return p, failure("refused", "", "start %s: it is not installed in this environment (PATH, %s)%s; install it "+
		"(Debian: apt-get install %s)", o.Product, strings.Join(folders, ", "), other, pack)
}

// candidates returns the paths at which a program exists.
func candidates(name string, folders []string, o Options) (list []string) {
	if o.Root == "" && o.Programs == "" {
		if path, err := proc.LookPath(name); err == nil {
			list = append(list, path)
		}
	}
	for _, dir := range folders {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			list = append(list, path)
		}
	}
	return list
}

// isMariaDB reports whether a server is MariaDB: distributions install it under MySQL's name, too.
func (p *programs) isMariaDB(ctx context.Context, path string) (bool, error) {
	cmd := proc.Command(ctx, slices.Concat(p.loader, []string{path, "--no-defaults", "--version"})...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	out, err := proc.RunCmd(cmd, nil)
	return strings.Contains(string(out), "MariaDB"), err
}

// foreign returns the command that runs programs of another release with the loader and the libraries of that release,
// because the environment's C library may be older, and the options with the paths of the server's files.
func foreign(root string) (loader, where []string, err error) {
	loaders, _ := filepath.Glob(filepath.Join(root, "usr/lib*/ld-linux-*.so.*"))
	more, _ := filepath.Glob(filepath.Join(root, "usr/lib/*/ld-linux-*.so.*"))
	if loaders = append(loaders, more...); len(loaders) == 0 {
		return nil, nil, fmt.Errorf("%s is not the root of a Linux system: usr/lib contains no ld-linux-*.so", root)
	}
	var libraries []string
	err = filepath.WalkDir(filepath.Join(root, "usr/lib"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(d.Name(), ".so") {
			if dir := filepath.Dir(path); len(libraries) == 0 || libraries[len(libraries)-1] != dir {
				libraries = append(libraries, dir)
			}
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	share := filepath.Join(root, "usr/share/mysql")
	where = []string{"--basedir=" + filepath.Join(root, "usr"), "--lc-messages-dir=" + share,
		"--character-sets-dir=" + filepath.Join(share, "charsets")}
	if plugins := filepath.Join(root, "usr/lib/mysql/plugin"); exists(plugins) {
		where = append(where, "--plugin-dir="+plugins)
	}
	return []string{loaders[0], "--library-path", strings.Join(libraries, ":")}, where, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// mysqlUser has all privileges and no password: only root and the server's account can reach the socket.
const mysqlUser = "root"

// startMySQL starts MariaDB or MySQL.
func startMySQL(ctx context.Context, o Options) (_ Server, err error) {
	s := &server{product: o.Product}
	p, err := findMySQL(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := s.choose("mysql"); err != nil {
		return nil, err
	}
	if err := s.folders(o, "sock"); err != nil {
		return nil, err
	}
	if o.Root != "" {
		if err := s.reachTo(o.Root); err != nil {
			return nil, with(err, s.remove())
		}
		if s.as.Privileged() {
			// The capability has an effect only after the first exec, so that must not be a program in Root.
			p.loader = append([]string{"/bin/sh", "-c", `exec "$@"`, "sh"}, p.loader...)
		}
	}
	data := filepath.Join(o.Dir, "data")
	if err := p.initialise(ctx, s, o, data); err != nil {
		return nil, with(err, s.remove())
	}
	argv := slices.Concat(p.loader, []string{p.daemon, "--no-defaults"}, p.where)
	temp := filepath.Join(o.Dir, "tmp")
	argv = append(argv, "--datadir="+data, "--socket="+s.listen, "--pid-file="+filepath.Join(temp, "pid"),
		"--tmpdir="+temp, "--secure-file-priv="+temp, "--skip-name-resolve")
	if o.Port > 0 {
		argv = append(argv, "--bind-address="+o.at(), "--port="+strconv.Itoa(o.Port))
	} else {
		argv = append(argv, "--skip-networking")
	}
	if p.install != "" && s.as.Privileged() {
		// Aria asks by access(2), which knows no capability, whether its log is there, and would begin another: to that
		// the tables are those of another server, which it has to repair when they are first used.
		log, err := s.inherit(data)
		if err != nil {
			return nil, with(err, s.remove())
		}
		argv = append(argv, "--aria-log-dir-path="+log)
	}
	if o.Copied {
		// Each product and release knows one or both of the names.
		argv = append(argv, "--skip-grant-tables", "--loose-skip-slave-start", "--loose-skip-replica-start")
	}
	if o.Product == MySQL {
		argv = append(argv, "--loose-mysqlx=OFF")
	}
	for _, setting := range o.Settings {
		argv = append(argv, "--"+setting)
	}
	if o.Open {
		argv = append(argv, "--skip-name-resolve") // whatever the settings are: root has no password at localhost
	}
	s.endpoint = Endpoint{Network: "unix", Address: s.socket, User: mysqlUser, Database: "mysql", Port: o.Port}
	err = s.launch(ctx, s.command(ctx, o.Dir, argv...), func(ctx context.Context) (string, error) {
		c, err := mysql.Dial(ctx, mysql.Config{Network: "unix", Address: s.socket, User: mysqlUser})
		if err != nil {
			return "", err
		}
		defer c.Quit()
		version := ""
		err = c.Query([]byte("SELECT VERSION()"), &mysql.Result{Row: func(values [][]byte) error {
			version = string(values[0])
			return nil
		}})
		return version, err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// forever are the settings that cannot be changed after the data directory was created.
var forever = []string{"innodb_page_size", "innodb_data_file_path", "innodb_undo_tablespaces", "lower_case_table_names"}

// initialise creates the data directory if it does not exist. It gets its name when it is complete.
func (p *programs) initialise(ctx context.Context, s *server, o Options, data string) error {
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
	var argv []string
	if p.install != "" {
		// It is a script that does not quote further options, so they must not contain blanks.
		argv = append(argv, p.install, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
			"--skip-name-resolve")
	} else {
		argv = slices.Concat(p.loader, []string{p.daemon, "--no-defaults", "--initialize-insecure"})
	}
	argv = append(slices.Concat(argv, p.where), "--datadir="+half)
	for _, setting := range o.Settings {
		if name, _, _ := strings.Cut(setting, "="); slices.Contains(forever, name) {
			argv = append(argv, "--"+setting)
		}
	}
	out, err := proc.RunCmd(s.command(ctx, o.Dir, argv...), nil)
	if err == nil {
		err = os.Rename(half, data)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	log := proc.Printable(out[max(0, len(out)-32<<10):])
	if x, ok := errors.AsType[*proc.ExitError](err); ok {
		log += x.Stderr
	}
	return with(failure("setup", log, "start %s: create its data directory as user %s: %v%s", o.Product, s.as.Name, err,
		why([]byte(log))), os.RemoveAll(half))
}
