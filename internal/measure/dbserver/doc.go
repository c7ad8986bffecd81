// Package dbserver starts private database servers: the MariaDB, MySQL or PostgreSQL that is installed in the
// environment, with its own data directory.
//
// It is opinionated: a server reads no configuration files, listens on a socket that only its user and root can reach,
// has no port by default, does not run as root, and ends with the process that started it, even if that is killed. If
// it does not start, the error contains the reason from its log. It works on Linux only.
package dbserver

import (
	"context"
	"fmt"
	"strings"

	"tare/internal/record"
	"tare/internal/sys/proc"
)

// Product is the name of a database server's software.
type Product string

// The supported products.
const (
	MariaDB    Product = "mariadb"
	MySQL      Product = "mysql"
	PostgreSQL Product = "postgresql"
)

// Options describe a server.
type Options struct {
	Product Product
	// Dir is the absolute path of a directory for this server only. It is created if it does not exist. The data is
	// kept in its subdirectory "data" for the next start.
	Dir string
	// Copied says that the data directory is a copy of another server's. Its accounts are ignored, and so is what it
	// has of that server's configuration: of PostgreSQL, postgresql.auto.conf and the files that make it a standby or
	// have it recover are removed. It replicates from nobody.
	Copied bool
	// SocketDir is the directory for the socket if the file system of Dir may not support sockets; "" means Dir.
	SocketDir string
	// Programs is the directory of the server's programs; "" means PATH and the usual directories.
	Programs string
	// Root is the directory of an unpacked other release of Linux with the server's programs, which run with the
	// libraries of that release; "" means the environment's own programs. It works with MySQL only.
	Root string
	// Port is a port of 127.0.0.1 on which the server listens, too; 0 for none.
	Port int
	// Open has the server listen at all addresses instead, on a port that is free. PostgreSQL lets in from there only
	// the Endpoint's user, with a password; MariaDB and MySQL let in whatever accounts the data directory has: the
	// caller sees to these in a start without Open before. It does not go with Copied.
	Open bool
	// Settings are further options of the server, each in the form name=value.
	Settings []string
}

// Endpoint describes how to connect to a server. The user has all privileges.
type Endpoint struct {
	Network  string // "unix"
	Address  string // the path of the socket
	User     string
	Password string
	Database string // a database that always exists
	Port     int    // as in Options; 0 for none
}

// Server is a server that runs.
type Server interface {
	Endpoint() Endpoint
	// Version is the version that the server reports.
	Version() string
	// Account is the user that it runs as.
	Account() string
	Pid() int
	// Done is closed when the server has ended.
	Done() <-chan struct{}
	// Log returns the end of the log, and the exit status if the server has ended.
	Log() string
	// Stop shuts the server down and keeps its data. If it still runs when ctx is done, it is killed.
	Stop(ctx context.Context) error
}

// at is the address at which the server listens, if it has a port.
func (o *Options) at() string {
	if o.Open {
		return "*"
	}
	return "127.0.0.1"
}

// failure returns an error with the end of the log as evidence.
func failure(kind, log, format string, args ...any) *record.Failure {
	return &record.Failure{Kind: kind, Message: fmt.Sprintf(format, args...), Evidence: log}
}

// why returns the reason in a log as the end of an error message: its first error, because later ones are often
// consequences, or else its most telling line.
func why(log []byte) string {
	for line := range strings.Lines(proc.Printable(log)) {
		if strings.Contains(line, "the database system is") {
			continue // the answer of a PostgreSQL that starts or ends to our own question
		}
		if strings.Contains(line, "ERROR") || strings.Contains(line, "FATAL") || strings.Contains(line, "PANIC") {
			return "; its log says: " + strings.TrimSpace(line)
		}
	}
	if found := proc.Telling(log); found != "" {
		return "; its log says: " + found
	}
	return ""
}
