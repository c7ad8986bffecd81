package deploy

import (
	"context"
	"encoding/json"

	"tare/internal/measure/wire"
)

// Probe has the agent carry out one operation on files, in the words of package probe, and returns its answer. An error
// is a *record.Failure, as of every request: the agent refused it or did not answer before ctx was done.
func (s *Conn) Probe(ctx context.Context, request json.RawMessage) (reply json.RawMessage, err error) {
	_, err = s.ask(ctx, wire.TypeProbe, request, wire.TypeProbe, &reply)
	return reply, err
}
