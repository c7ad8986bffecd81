package command

import (
	"context"
	"errors"
	"fmt"

	"tare/internal/measure/workload"
)

// Output runs the command of some parameters once, on this machine, with what goes before and after it, and returns
// what it printed to standard output, at most 8 MiB. dir is the working directory where the parameters name none.
func Output(ctx context.Context, p workload.Params, dir string) (out []byte, err error) {
	t, err := newTrial(p)
	if err != nil {
		return nil, err
	}
	b := &workload.Bench{Dir: dir, Work: 1}
	defer func() { err = errors.Join(err, t.Cleanup(b)) }()
	if err := t.Setup(ctx, b); err != nil {
		return nil, err
	}
	o, err := t.command.run(ctx, true)
	t.owed = true
	if err == nil {
		err = t.command.ended(&o, t.exit)
	}
	if err == nil && o.lost > 0 {
		err = fmt.Errorf("the output is longer than %d MiB, the most that is read for figures", maxOutput>>20)
	}
	return o.output, err
}
