// Package capture turns the log of a database server on for a while and writes what the server logged into a file.
//
// It is opinionated: in the end the server is as it was before, however the capture ends. What has to be restored is on
// the disk, in a note, before the first setting is changed. If the process is killed, Clean finds the note.
//
//  1. Prepare looks at the server: what would be changed, what it is asked now, and how fast its log would grow.
//  2. Run writes the note and changes the settings.
//  3. It waits for the end of the time, the limit of the size, or a stop.
//  4. It restores the settings, copies the log, and removes the server's file and then the note.
//
// The server writes into a file of the capture's own, so that the logs that it keeps for its owner stay as they are. If
// it keeps such a log of everything already, no setting is changed, and the copy is taken from that log.
package capture
