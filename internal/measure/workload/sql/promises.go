package sql

import (
	"tare/internal/measure/workload"
	"tare/internal/sys/sql/promise"
)

// family is how the server's settings are to be read.
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
	_ = c.settle() // so that this question is not among what the work is counted by
	if text := s.Text(); text != "" {
		b.Note(promise.State, text)
	}
}
