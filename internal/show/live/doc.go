// Package live shows a run while it runs: the report page, served to browsers on this machine, with progress and
// figures that grow block by block.
//
// It is opinionated about not being noticed. A measurement is worth more than its picture, so
//
//   - nothing is evaluated or encoded while a trial runs: reports are made on the measuring goroutine, between two
//     blocks,
//     and a request only copies bytes that are ready;
//   - nothing is made that nobody looks at, and never more often than every ten seconds or for more than a hundredth of
//     the run's time;
//   - the garbage of a report is collected before the next trial.
//
// What a browser spends on drawing is not in this package's hands: docs/live.md says what it cost where it was
// measured.
//
// It is opinionated about strangers, too. The server listens on loopback only, answers nothing but GET for three exact
// paths, refuses requests for another host name (DNS rebinding) and from other sites, and shows the run only to the
// browser that exchanged the link's token, once, for a cookie. It reads no file.
package live
