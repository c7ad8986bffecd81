package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload"
	"tare/internal/sys/sql"
	"tare/internal/sys/sql/secure"
)

// serverParams are the parameters that say which server a kind works with.
func serverParams() []workload.Param {
	return []workload.Param{
		{Name: "server", Type: workload.Choice, Default: string(dbserver.MariaDB),
			Choices: []string{string(dbserver.MariaDB), string(dbserver.MySQL), string(dbserver.PostgreSQL)},
			Doc: "server that tare starts with its own data directory, or the kind of the one at " +
				"address: mariadb, mysql or postgresql"},
		{Name: "settings", Type: workload.Text,
			Doc: "settings of the server that tare starts: name=value;name=value"},
		{Name: "root", Type: workload.Text,
			Doc: "directory of another, unpacked Linux system whose MySQL is started"},
		{Name: "address", Type: workload.Text,
			Doc: "a server that runs, as the environment sees it: a numeric address with a port, " +
				"10.0.0.5:3306, or a socket's path"},
		{Name: "user", Type: workload.Text, Doc: "user at address"},
		{Name: "password-file", Type: workload.Text,
			Doc: "file on the controller's machine with the user's password in its first line"},
		{Name: "database", Type: workload.Text, Doc: "the database; empty: the log's only one, else " +
			"tare, or at address the user's default"},
		{Name: "tls", Type: workload.Choice, Default: sql.TLSOff,
			Choices: []string{sql.TLSOff, sql.TLSRequire, sql.TLSVerify},
			Doc: "off; require: encrypt the connections to address; verify: check the server's " +
				"certificate, too"},
		{Name: "tls-ca", Type: workload.Text,
			Doc: "file on the controller's machine with the authorities of the server's certificate, " +
				"which must name the address; empty: the environment's"},
		{Name: "disposable", Type: workload.Bool, Default: "no",
			Doc: "yes: the server at address may be written to"},
	}
}

// lasts declares what the transactions make: it lasts as the server promises, where that has its data.
func lasts(p workload.Params, writes bool) workload.Lasting {
	if !writes {
		return workload.Lasting{}
	}
	l := workload.Lasting{Flush: workload.FlushByServer, Metrics: workload.AllMetrics}
	if p["address"] != "" {
		l.Place = workload.Elsewhere
	}
	return l
}

// lanesParam is the number of connections.
func lanesParam(doc string) workload.Param {
	return workload.Param{Name: "lanes", Type: workload.Text, Default: "2x", Doc: doc}
}

// target is the server that trials work with.
type target struct {
	product dbserver.Product
	private bool // tare has started it
	endpoint
	disposable bool
	// secure encrypts a connection; nil for none.
	secure func(sql.Stream) (sql.Stream, error)
	buffer []byte // of one connection at a time; nil: each has its own
	untold bool   // see sql.Dial

	logStart int64 // as trace.Meta has it

	open bool // a private server that other hosts reach, as own with the password Key

	unnamed bool // no parameter names the database of a private server

	tls      string
	settings []string
	root     string
}

// endpoint is the address of a server, with the account. That of a service is sent to its trials as JSON.
type endpoint struct {
	Network  string `json:"network"`
	Address  string `json:"address"`
	User     string `json:"user"`
	Password string `json:"password,omitempty"`
	Database string `json:"database"`
	PID      int    `json:"pid,omitempty"` // of a private server
	Version  string `json:"version,omitempty"`
	Port     int    `json:"port,omitempty"` // of one that is open
	Key      string `json:"key,omitempty"`
	Trials   int64  `json:"trials,omitempty"` // that it had served, where that is told to other hosts
}

// own is the database of a private server, and the user by which other hosts reach it.
const own = "tare"

// newTarget checks the parameters of a server together.
func newTarget(p workload.Params) (*target, error) {
	t := &target{product: dbserver.Product(p["server"]), private: p["address"] == "", tls: p["tls"], root: p["root"],
		disposable: p.Bool("disposable")}
	t.Address, t.User, t.Database = p["address"], p["user"], p["database"]
	for setting := range strings.SplitSeq(p["settings"], ";") {
		if setting = strings.TrimSpace(setting); setting != "" {
			t.settings = append(t.settings, setting)
		}
	}
	without := func(why string, names ...string) error {
		for _, name := range names {
			if v := p[name]; v != "" && v != "false" && v != sql.TLSOff {
				return fmt.Errorf("%s=%s has no effect %s", name, v, why)
			}
		}
		return nil
	}
	if t.private {
		if t.unnamed = t.Database == ""; t.unnamed {
			t.Database = own
		}
		t.disposable, t.open = true, p[workload.FromParam] != ""
		return t, errors.Join(without("on a server that tare starts; give an address", "user", "password-file", "tls",
			"tls-ca", "disposable"), t.checkSettings())
	}
	t.Network = "tcp"
	if strings.HasPrefix(t.Address, "/") {
		t.Network = "unix"
	} else if _, err := netip.ParseAddrPort(t.Address); err != nil {
		return nil, fmt.Errorf("address=%s: give a numeric address with a port, such as 10.0.0.5:3306, or the path "+
			"of a socket", t.Address)
	}
	if t.User == "" {
		return nil, errors.New("address: also set user=NAME")
	}
	if t.tls != sql.TLSOff && t.Network == "unix" {
		return nil, fmt.Errorf("tls=%s has no effect on a Unix socket, which is local: leave it out", t.tls)
	}
	if t.tls != sql.TLSVerify {
		if err := without("without tls=verify", "tls-ca"); err != nil {
			return nil, err
		}
	}
	return t, without("on a server that tare does not start", "settings", "root", "data")
}

func (t *target) checkSettings() error {
	for _, s := range t.settings {
		if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
			return fmt.Errorf("settings: %q is not name=value", s)
		}
	}
	if t.root != "" && t.product != dbserver.MySQL {
		return fmt.Errorf("root has an effect on server=%s only", dbserver.MySQL)
	}
	return nil
}

// find completes the target from the service, or from the files that the controller sent.
func (t *target) find(b *workload.Bench) error {
	if t.private {
		if err := json.Unmarshal([]byte(b.Service.Endpoint), &t.endpoint); err != nil {
			return fmt.Errorf("find the database server: %w", err)
		}
	}
	t.untold = t.Network == "unix"
	if t.private {
		return nil
	}
	if path := b.Files["password-file"]; path != "" {
		var err error
		if t.Password, err = sql.Password(path); err != nil {
			return err
		}
	}
	if t.tls == sql.TLSOff {
		return nil
	}
	var err error
	t.secure, err = secure.For(t.Address, b.Files["tls-ca"], t.tls)
	return err
}

// mysql tells whether the server speaks MySQL's protocol.
func (t *target) mysql() bool { return t.product != dbserver.PostgreSQL }

// dialAll makes n connections.
func dialAll(ctx context.Context, t *target, n int, readOnly bool) (all []client, err error) {
	for range n {
		c, err := dial(ctx, t, readOnly)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connection %d of %d: %w", len(all)+1, n, err), closeAll(all))
		}
		all = append(all, c)
	}
	return all, nil
}

// closeAll closes connections.
func closeAll(all []client) error {
	var errs []error
	for _, c := range slices.Backward(all) {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}
