package sql

import (
	"cmp"
	"os"
	"path/filepath"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/sys/sql/promise"
)

// family is the family of products by which the server's settings are read.
func (t *target) family() promise.Family {
	if t.mysql() {
		return promise.MySQL
	}
	return promise.PostgreSQL
}

// notePromises notes what the server's settings promise of a transaction. A server that does not tell, such as one that
// only speaks the protocol, promises nothing that is known.
func (t *target) notePromises(b *workload.Bench, c client) {
	s := promise.Settings{Family: t.family()}
	if err := c.query([]byte(promise.Ask(s.Family)), &answer{row: s.Row}); err != nil {
		return // if the connection is lost, the next question says so
	}
	if !t.private && t.Network == "unix" && t.onTarget(b, c) {
		b.Note(promise.DiskState, promise.OnTarget)
	}
	_ = c.settle() // so that these questions are not among what the work is counted by
	if text := s.Text(); text != "" {
		b.Note(promise.State, text)
	}
}

// onTarget tells whether a server that runs beside the trial has its data where the target's work directory is, and so
// on the disk of which it is known what a flush does.
func (t *target) onTarget(b *workload.Bench, c client) bool {
	folder := ""
	err := c.query([]byte(promise.AskFolder(t.family())), &answer{row: func(v [][]byte) error {
		folder = string(v[0])
		return nil
	}})
	if err != nil || !filepath.IsAbs(folder) {
		return false
	}
	own, err := os.Stat(cmp.Or(b.Root, b.Dir))
	data, err2 := os.Stat(folder)
	return err == nil && err2 == nil && fileio.SameDevice(own, data)
}
