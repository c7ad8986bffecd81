package restore

import (
	"context"
	"errors"

	"tare/internal/workload"
)

type database struct{}

func (t *trial) startServer(context.Context, *workload.Bench) error { return errors.New("not yet") }

func (d *database) load(context.Context, string, string) error { return nil }

func (d *database) rows() (count [tableCount]int64, digest [tableCount]string, err error) { return }
