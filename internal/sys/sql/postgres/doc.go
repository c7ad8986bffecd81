// Package postgres is a client for PostgreSQL (protocol 3.0, PostgreSQL documentation, "Frontend/Backend Protocol"):
// small because the agent must be, and made for measuring.
//
// It is opinionated. A command is one send, and its answer is read into one buffer that never grows: rows are counted
// and added up as they come, whatever their size, and nothing is allocated for a query once the first has passed. All
// values travel as text. Nothing that a server says takes more memory than that buffer, but for a row or an error that
// the caller asks for, and those have bounds.
//
//	c, err := postgres.Dial(ctx, postgres.Config{Network: "unix", Address: path, User: "u"})
//	err = c.Query([]byte("SELECT 1"), &result)
//
// An error of the server's is an *Error, after which the connection goes on unless Broken says otherwise. After any
// other error it is of no use any more.
package postgres
