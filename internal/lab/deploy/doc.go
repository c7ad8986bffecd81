// Package deploy gets an agent into an environment and talks to it: probe -> choose agent -> put -> start -> handshake.
//
// Conn is the controller's end of a connection to one agent. A trial is one request; nothing travels while it is
// being measured but the two marks Begin and End, which the controller stamps with its own clock.
package deploy
