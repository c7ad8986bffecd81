// Package web measures web servers: load on a real server, and the first page of a server that has just started.
//
// It is opinionated about what counts as a request. The server is the environment's own nginx, started by the trial
// with its own files, or a server of the user; never one of tare's. Every response is checked: an error, a redirect to
// a login page or a short body is a failure of the trial and never a fast success. The load is closed: each connection
// sends its next request when the last response is complete, so that a latency is a service time, and a stalled server
// gets fewer requests.
//
// The timed loop is like wrk's: a prebuilt request, one write, one read into a reused buffer, a minimal parser, one
// clock reading per response. It allocates nothing. The connection is TCP over loopback and not a Unix socket, because
// pages are served over TCP, and its cost is part of the answer.
package web
