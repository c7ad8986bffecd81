package sql

import (
	"fmt"

	"tare/internal/measure/workload"
)

// Report turns what the lanes have counted into figures.
func (r *replayTrial) Report(b *workload.Bench) error {
	if err := r.Replay.Report(b, "database"); err != nil {
		return err
	}
	if r.target.Database != "" {
		b.Note("database", r.target.Database)
	}
	r.reportServer(b)
	return nil
}

// Shares of client and server from which on they are told.
const (
	cold        = 0.001 // share of pages that were not in the server's memory
	clientBound = 0.5   // share of the CPU time of client and server that the client has
)

// reportServer reports the use of client and server.
func (r *replayTrial) reportServer(b *workload.Bench) {
	did := r.target.did(b, r.before, r.aside, r.kept())
	b.Note("server_version", r.target.Version)
	if did.cpu > 0 {
		b.Report("server_cpu_us_per_statement", 1e6*did.cpu.Seconds()/float64(r.Statements()))
	}
	if share := did.missShare(); share > cold && !b.Warmup {
		_, missed := did.pages()
		b.Warn("sql-cold", fmt.Sprintf("%.2f %% of the pages that the server read, %d, were not in its memory",
			100*share, missed), "give the server more memory (innodb_buffer_pool_size, shared_buffers); if the data "+
			"is larger than the memory, this is the result")
	}
	if share := r.CPU.Seconds() / (r.CPU + did.cpu).Seconds(); did.cpu > 0 && share > clientBound {
		b.Warn("sql-client-bound", fmt.Sprintf("the client took %.0f %% of the CPU time", 100*share),
			"the figures mostly measure the client: replay a log with more expensive statements")
	}
}
