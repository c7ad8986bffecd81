package sql

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"tare/internal/sys/sql"
	"tare/internal/sys/sql/mysql"
	"tare/internal/sys/sql/postgres"
	"tare/internal/sys/sql/trace"
)

// client is a connection to a server of either protocol. Nothing here allocates memory for a statement. An error of the
// server is a *refusal; after any other error, which wraps sql.ErrGone, the connection is of no use.
type client interface {
	// query runs one or more statements of a text.
	query(text []byte, a *answer) error
	// prepare prepares a statement. name is its name in the server, where the protocol has names; empty: any.
	prepare(id uint32, name, text []byte) error
	// execute runs a prepared statement with text for parameters, nil for NULL. id 0 is text, as PostgreSQL's unnamed
	// statement.
	execute(id uint32, text []byte, params [][]byte, types []trace.Type, a *answer) error
	closeStatement(id uint32) error
	// use changes the database.
	use(database []byte) error
	// reset makes the session as new, in the same database.
	reset() error
	// readsOnly tells whether the transactions of the session are read-only unless they say otherwise.
	readsOnly() bool
	// settle has the server's counters contain what was done on this connection.
	settle() error
	// interrupt makes the call that waits fail, and all later ones. Any goroutine may call it.
	interrupt()
	close() error
}

// answer is the result of a statement. Each statement begins it anew.
type answer struct {
	rows, affected uint64
	bytes          uint64 // of the rows as they travel
	// ordered and unordered are checksums of the rows (sql.Sum). Those of a prepared statement of MySQL are of its
	// rows' encoding.
	ordered, unordered uint64
	// row, if set, is called for each row, with nil for NULL. The values are valid until it returns.
	row func(values [][]byte) error
}

// take keeps what was counted of the rows.
func (a *answer) take(rows, affected, bytes uint64, sum *sql.Sum) {
	a.rows, a.affected, a.bytes = rows, affected, bytes
	a.ordered, a.unordered = sum.Ordered(), sum.Unordered()
}

// refusal is an error that the server reported. The connection is as good as before.
type refusal struct {
	code string // number of MySQL's error, or SQLSTATE of PostgreSQL; "client" if the client cannot send such a thing
	text string
}

func (r *refusal) Error() string { return fmt.Sprintf("error %s: %s", r.code, r.text) }

// codeClient is the code of a refusal that is the client's own.
const codeClient = "client"

// errNotPrepared is the error of a statement that was not prepared.
var errNotPrepared = &refusal{codeClient, "the statement was not prepared on this connection"}

// refused makes an error of either protocol one of this package. dead is why the connection is of no use, or nil.
func refused(err, dead error) error {
	if err == nil {
		return nil
	}
	if dead != nil {
		if !errors.Is(err, sql.ErrGone) {
			err = errors.Join(err, dead)
		}
		return err
	}
	if e, ok := errors.AsType[*mysql.Error](err); ok {
		return &refusal{strconv.Itoa(int(e.Number)), e.Message}
	}
	if e, ok := errors.AsType[*postgres.Error](err); ok {
		return &refusal{e.Code, e.Message}
	}
	return &refusal{codeClient, err.Error()}
}

// dial connects to a server; ctx limits the time. The error is a *refusal if the server refused the login.
//
// With target.untold, the goroutine that uses the connection must be locked to a thread, and thread.Room must have been
// called; see sql.Dial.
func dial(ctx context.Context, t *target, readOnly bool) (client, error) {
	if t.mysql() {
		return dialMySQL(ctx, t, readOnly)
	}
	return dialPostgres(ctx, t, readOnly)
}

// mysqlClient is a client of MySQL and MariaDB.
type mysqlClient struct {
	conn     *mysql.Conn
	readOnly bool
	result   mysql.Result
	prepared map[uint32]*mysql.Stmt
	params   []mysql.Param
}

func dialMySQL(ctx context.Context, t *target, readOnly bool) (client, error) {
	conn, err := mysql.Dial(ctx, mysql.Config{Network: t.Network, Address: t.Address, User: t.User,
		Password: t.Password, Database: t.Database, Secure: t.secure, Untold: t.untold, Buffer: t.buffer,
		MultiStatements: true})
	if err != nil {
		if _, ok := errors.AsType[*mysql.Error](err); ok {
			err = refused(err, nil)
		}
		return nil, err
	}
	c := &mysqlClient{conn: conn, readOnly: readOnly, result: mysql.Result{Checksum: true},
		prepared: map[uint32]*mysql.Stmt{}}
	if err := c.restrict(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// restrict makes the session read-only, if it is to be.
func (c *mysqlClient) restrict() error {
	if !c.readOnly {
		return nil
	}
	return c.query([]byte("SET SESSION TRANSACTION READ ONLY"), &answer{})
}

func (c *mysqlClient) refused(err error) error { return refused(err, c.conn.Dead()) }

func (c *mysqlClient) query(text []byte, a *answer) error {
	c.begin(a)
	return c.end(a, c.conn.Query(text, &c.result))
}

func (c *mysqlClient) begin(a *answer) {
	c.result.Reset()
	c.result.Row = a.row
}

func (c *mysqlClient) end(a *answer, err error) error {
	a.take(c.result.Rows, c.result.Affected, c.result.Bytes, &c.result.Sum)
	return c.refused(err)
}

func (c *mysqlClient) prepare(id uint32, _, text []byte) error {
	s, err := c.conn.Prepare(text)
	if err != nil {
		return c.refused(err)
	}
	c.prepared[id] = s
	return nil
}

func (c *mysqlClient) execute(id uint32, _ []byte, params [][]byte, types []trace.Type, a *answer) error {
	s := c.prepared[id]
	if s == nil {
		return errNotPrepared
	}
	c.params = c.params[:0]
	for i, p := range params {
		kind := trace.Text
		if i < len(types) {
			kind = types[i]
		}
		c.params = append(c.params, param(p, kind))
	}
	c.begin(a)
	return c.end(a, c.conn.Execute(s, c.params, &c.result))
}

// param is a value of a prepared statement as MySQL's protocol has it. A number that has no such form is sent as text.
func param(text []byte, kind trace.Type) mysql.Param {
	switch {
	case text == nil:
		return mysql.NullParam()
	case kind == trace.Blob:
		return mysql.Param{Type: mysql.Blob, Text: text}
	case kind == trace.Int:
		if n, ok := integer(text); ok {
			return n
		}
	case kind == trace.Double:
		if f, err := strconv.ParseFloat(string(text), 64); err == nil {
			return mysql.DoubleParam(f)
		}
	}
	return mysql.TextParam(text)
}

// integer reads decimal digits with or without a sign.
func integer(text []byte) (p mysql.Param, ok bool) {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return mysql.IntParam(n), true
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	return mysql.UintParam(n), err == nil
}

func (c *mysqlClient) closeStatement(id uint32) error {
	s := c.prepared[id]
	if s == nil {
		return errNotPrepared
	}
	delete(c.prepared, id)
	return c.refused(c.conn.CloseStmt(s))
}

func (c *mysqlClient) use(database []byte) error { return c.refused(c.conn.InitDB(string(database))) }

// reset also restores what the server forgets then: the character set of the login, and that the session only reads.
func (c *mysqlClient) reset() error {
	if err := c.conn.ResetConnection(); err != nil {
		return c.refused(err)
	}
	clear(c.prepared)
	if err := c.query([]byte("SET NAMES utf8mb4"), &answer{}); err != nil {
		return err
	}
	return c.restrict()
}

func (c *mysqlClient) readsOnly() (is bool) {
	// Its name depends on the version.
	text := "SHOW VARIABLES WHERE Variable_name IN ('tx_read_only', 'transaction_read_only')"
	err := c.query([]byte(text), &answer{row: func(v [][]byte) error {
		is = string(v[1]) == "ON"
		return nil
	}})
	return err == nil && is
}

func (c *mysqlClient) settle() error { return nil }

func (c *mysqlClient) interrupt() { c.conn.Interrupt() }

func (c *mysqlClient) close() error { return c.conn.Quit() }

// postgresClient is a client of PostgreSQL.
type postgresClient struct {
	conn     *postgres.Conn
	result   postgres.Result
	database string
	prepared map[uint32]string // names
}

func dialPostgres(ctx context.Context, t *target, readOnly bool) (client, error) {
	conn, err := postgres.Dial(ctx, postgres.Config{Network: t.Network, Address: t.Address, User: t.User,
		Password: t.Password, Database: t.Database, Secure: t.secure, ReadOnly: readOnly,
		Settings: map[string]string{"application_name": "tare"}, Untold: t.untold, Buffer: t.buffer})
	if err != nil {
		if _, ok := errors.AsType[*postgres.Error](err); ok {
			err = refused(err, nil)
		}
		return nil, err
	}
	return &postgresClient{conn: conn, result: postgres.Result{Digest: true}, database: t.Database,
		prepared: map[uint32]string{}}, nil
}

func (c *postgresClient) refused(err error) error { return refused(err, c.conn.Broken()) }

func (c *postgresClient) query(text []byte, a *answer) error {
	c.result.Row = a.row
	return c.end(a, c.conn.Query(text, &c.result))
}

// tellsFlushes tells whether the server has the view of what it did to its log.
func (c *postgresClient) tellsFlushes() bool {
	release := 0
	_, err := fmt.Sscanf(c.conn.Setting("server_version"), "%d", &release)
	return err == nil && release >= 14
}

func (c *postgresClient) end(a *answer, err error) error {
	a.take(c.result.Rows, c.result.Affected, c.result.Bytes, &c.result.Sum)
	return c.refused(err)
}

func (c *postgresClient) prepare(id uint32, name, text []byte) error {
	n := string(name)
	if n == "" {
		n = "tare_" + strconv.FormatUint(uint64(id), 10)
	}
	c.conn.CloseStatement(n) // a log has the name again, where it does not tell that the statement was closed
	c.conn.Parse(n, text)
	if err := c.conn.Sync(nil); err != nil {
		return c.refused(err)
	}
	c.prepared[id] = n
	return nil
}

func (c *postgresClient) execute(id uint32, text []byte, params [][]byte, _ []trace.Type, a *answer) error {
	name, ok := c.prepared[id]
	if id == 0 {
		c.conn.Parse("", text)
	} else if !ok {
		return errNotPrepared
	}
	c.result.Row = a.row
	c.conn.Bind("", name, params)
	c.conn.Execute("", 0)
	return c.end(a, c.conn.Sync(&c.result))
}

func (c *postgresClient) closeStatement(id uint32) error {
	name, ok := c.prepared[id]
	if !ok {
		return errNotPrepared
	}
	delete(c.prepared, id)
	c.conn.CloseStatement(name)
	return c.refused(c.conn.Sync(nil))
}

func (c *postgresClient) use(database []byte) error {
	if string(database) == c.database {
		return nil
	}
	return &refusal{codeClient, "a session of PostgreSQL cannot change to another database"}
}

func (c *postgresClient) reset() error {
	clear(c.prepared)
	if c.conn.Status() != 'I' { // a session that ended amid a transaction
		if err := c.query([]byte("ROLLBACK"), &answer{}); err != nil {
			return err
		}
	}
	return c.query([]byte("DISCARD ALL"), &answer{})
}

// readsOnly goes by what the server has told by itself, as a failed transaction answers no question. Servers before
// version 14 do not tell.
func (c *postgresClient) readsOnly() bool {
	return c.conn.Setting("default_transaction_read_only") == "on" || c.conn.Setting("in_hot_standby") == "on"
}

// settle asks for what a server does by itself only once a second, and a server before 15 within half a second.
func (c *postgresClient) settle() error {
	err := c.query([]byte("SELECT pg_stat_force_next_flush()"), &answer{})
	if r, ok := errors.AsType[*refusal](err); ok && r.code == noSuchFunction {
		return nil
	}
	return err
}

// noSuchFunction is PostgreSQL's SQLSTATE for a function that does not exist.
const noSuchFunction = "42883"

func (c *postgresClient) interrupt() { c.conn.Interrupt() }

func (c *postgresClient) close() error {
	_ = c.conn.Close() // the server may have closed the connection already
	return nil
}
