// Package web weighs the serving of web pages: load on a real server, and the first page of one that has just started.
//
// It is opinionated about what counts as a request. The server is the environment's own nginx, started by the trial
// with files of its own, or one that the user names; never one of tare's. Every response is checked, and one that is
// not what was asked for is a failure of the trial and never a fast success: an error, a redirect to a login page, a
// short body. The load is closed: each connection sends its next request when the last response is complete, so that a
// latency is a service time, and a server that stalls is asked less often meanwhile.
//
// The timed loop is what wrk's is: a prebuilt request, one write, one read into a buffer that is used again, a parser
// that looks at no more than it must, one reading of the clock for each response. It allocates nothing. The connection
// is TCP over loopback and not a Unix socket, because TCP is what a page is served over, and its cost is part of the
// answer.
package web
