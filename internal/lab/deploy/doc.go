// Package deploy puts an agent into an environment and talks to it: probe -> choose agent -> put -> start -> handshake.
//
// Conn is the controller's end of a connection to one agent. A trial is one request. While it is measured, nothing is
// sent but the two marks Begin and End, which the controller stamps with its own clock.
package deploy
