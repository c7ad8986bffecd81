package deploy

import (
	"context"
	"encoding/json"

	"tare/internal/measure/wire"
)

// Probe asks the agent for one file operation, as described in package fileops, and returns the answer. The error is a
// *record.Failure: the agent rejected the request or did not answer before ctx ended.
func (s *Conn) Probe(ctx context.Context, request json.RawMessage) (reply json.RawMessage, err error) {
	_, err = s.ask(ctx, wire.TypeProbe, request, wire.TypeProbe, &reply)
	return reply, err
}
