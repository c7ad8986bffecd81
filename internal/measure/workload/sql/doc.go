// Package sql has the kinds of work on database servers: MariaDB, MySQL and PostgreSQL.
//
// It is opinionated. A server is tare's own unless an address is given: it is started once for a session, loaded, and
// keeps its caches from trial to trial. A lane is one connection with a thread of its own; its statements follow each
// other without a pause. Every row of every result is counted and checksummed. A trial whose connection is lost fails:
// no part of its work is a result. A server that is not tare's own is only read from unless the plan calls it
// disposable.
package sql
