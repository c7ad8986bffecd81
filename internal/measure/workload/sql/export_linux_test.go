package sql

import (
	"encoding/json"
	"testing"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload"
)

// For the tests of package sql_test, which use packages that use this one.

// Each is each.
func Each(t *testing.T, test func(t *testing.T, server map[string]string)) { each(t, test) }

// Start starts the private server that parameters of sql.replay ask for.
func Start(t *testing.T, p workload.Params) workload.Serving {
	return started(t, service(p, dataOf(p)))
}

// StartWith is Start with the files that the controller sends.
func StartWith(t *testing.T, p workload.Params, files map[string]string) workload.Serving {
	return startedWith(t, service(p, dataOf(p)), files)
}

// Client is a connection for a test.
type Client struct{ c client }

// Connect connects to a private server; database is "" for the server's own.
func Connect(t *testing.T, p workload.Params, s workload.Serving, database string) *Client {
	t.Helper()
	to, err := newTarget(p)
	if err == nil {
		err = to.find(&workload.Bench{Service: s})
	}
	if err != nil {
		t.Fatal(err)
	}
	to.untold = false // the test has no threads for that
	if database != "" {
		to.Database = database
	}
	c, err := dial(t.Context(), to, false)
	if err != nil {
		t.Fatal(err)
	}
	return &Client{c}
}

// Word runs statements and returns the first value of the last row.
func (c *Client) Word(t *testing.T, statements ...string) (value string) {
	t.Helper()
	for _, text := range statements {
		value = word(t, c.c, text)
	}
	return value
}

// Refused runs a statement and tells whether the server refused it.
func (c *Client) Refused(text string) bool {
	_, ok := c.c.query([]byte(text), &answer{}).(*refusal)
	return ok
}

// Prepare prepares a statement.
func (c *Client) Prepare(t *testing.T, id uint32, name, text string) {
	t.Helper()
	if err := c.c.prepare(id, []byte(name), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// Execute runs it.
func (c *Client) Execute(t *testing.T, id uint32, params ...string) {
	t.Helper()
	c.execute(t, id, "", params)
}

// ExecuteUnnamed runs a statement of PostgreSQL without a name.
func (c *Client) ExecuteUnnamed(t *testing.T, text string, params ...string) {
	t.Helper()
	c.execute(t, 0, text, params)
}

func (c *Client) execute(t *testing.T, id uint32, text string, params []string) {
	t.Helper()
	var values [][]byte
	for _, p := range params {
		values = append(values, []byte(p))
	}
	if err := c.c.execute(id, []byte(text), values, nil, &answer{}); err != nil {
		t.Fatal(err)
	}
}

// Use changes the database.
func (c *Client) Use(t *testing.T, database string) {
	t.Helper()
	if err := c.c.use([]byte(database)); err != nil {
		t.Fatal(err)
	}
}

// Quit ends the session.
func (c *Client) Quit(t *testing.T) {
	t.Helper()
	if err := c.c.close(); err != nil {
		t.Fatal(err)
	}
}

// Address is the path of a private server's socket.
func Address(t *testing.T, s workload.Serving) string {
	t.Helper()
	var e endpoint
	if err := json.Unmarshal([]byte(s.Endpoint), &e); err != nil {
		t.Fatal(err)
	}
	return e.Address
}

// Serving is a server as a service tells of it.
func Serving(t *testing.T, s dbserver.Server) workload.Serving {
	t.Helper()
	e := s.Endpoint()
	text, err := json.Marshal(endpoint{Network: e.Network, Address: e.Address, User: e.User, Password: e.Password,
		Database: e.Database, PID: s.Pid(), Version: s.Version()})
	if err != nil {
		t.Fatal(err)
	}
	return workload.Serving{Endpoint: string(text), Starts: 1, Trials: 1}
}
