// Package mysql speaks the protocol of MySQL and MariaDB, as a client (MySQL Internals Manual, "Client/Server
// Protocol"; MariaDB Knowledge Base, "Client/Server Protocol").
//
// It is opinionated: it is made for replaying statements. A command is one write. A result passes through one buffer
// of fixed size, whatever the server sends, and is counted and checksummed there; rows are stored only if the caller
// wants them. A query does not allocate memory. A server that asks for a file of the client gets none.
package mysql
