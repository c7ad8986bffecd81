package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/sys/proc"
)

// checksumRows compare the clients of sql.replay with themselves, with the sum over all rows switched off.
func checksumRows() []row {
	var all []row
	for _, p := range []dbserver.Product{dbserver.MariaDB, dbserver.PostgreSQL} {
		needs := map[dbserver.Product]string{dbserver.MariaDB: "mariadbd", dbserver.PostgreSQL: "psql"}[p]
		all = append(all, row{
			name: "sql-checksum-" + string(p),
			what: "the queries of the synthetic shop's pages by one connection, with all rows checksummed: queries " +
				"per second, and the client's processor time for each",
			peer: "the same client without checksums", programs: []string{needs},
			figures: []figure{{name: "rate", unit: "queries/s", goal: 0.95},
				{name: "processor time of the client", unit: "us", goal: 1.05, atMost: true}},
			open: func(ctx context.Context, b *bench) (*contest, error) { return openChecksum(ctx, b, p) },
		})
	}
	return all
}

func openChecksum(ctx context.Context, b *bench, product dbserver.Product) (_ *contest, err error) {
	if _, ok := proc.CPUTime(os.Getpid()); !ok {
		return nil, missing{"this system does not tell a process's CPU time"}
	}
	server, e, err := shopServer(ctx, b, product)
	if err != nil {
		return nil, err
	}
	end := func() error { return server.Stop(context.WithoutCancel(ctx)) }
	c, err := dialBench(ctx, product, e)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	sessions := shopQueries()
	n := queriesOf(sessions)
	pass := func() error {
		for _, s := range sessions {
			for _, q := range s {
				if err := c.query(q); err != nil {
					return err
				}
			}
		}
		return nil
	}
	start := time.Now()
	if err := pass(); err != nil {
		return nil, errors.Join(err, c.close(), end())
	}
	passes := int64(b.length/time.Since(start)) + 1
	rows, bytes := c.results.Rows, c.results.Bytes
	with := func(sum bool) side {
		return func(ctx context.Context) ([]float64, error) {
			c.checksum(sum)
			start := time.Now()
			before, _ := proc.CPUTime(os.Getpid())
			for range passes {
				if err := errors.Join(ctx.Err(), pass()); err != nil {
					return nil, err
				}
			}
			after, _ := proc.CPUTime(os.Getpid())
			took := time.Since(start)
			return []float64{float64(passes*n) / took.Seconds(),
				float64((after - before).Nanoseconds()) / 1e3 / float64(passes*n)}, nil
		}
	}
	return &contest{
		tare: with(true), peer: with(false),
		notes: []string{
			fmt.Sprintf("%d queries a run, in this process, as text by a Unix socket; a query has %.1f rows and %.0f "+
				"bytes of rows on average", passes*n, float64(rows)/float64(n), float64(bytes)/float64(n)),
			"server: " + server.Version() + " with default settings",
		},
		close: func() error { return errors.Join(c.close(), end()) },
	}, nil
}
