package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"tare/internal/sys/nbd"
	"tare/internal/sys/nbd/nbdtest"
	"tare/internal/sys/proc"
)

// The device that is written.
const (
	nbdSize   = 64 << 20
	nbdRecord = 4 << 10
	nbdRounds = 300 // writes with a flush at queue depth 1; each lane of a deeper queue does as many
)

// nbdRows compare tare's own network block device with QEMU's, both before a raw file on the same file system and both
// driven by the same client.
func nbdRows() []row {
	return []row{{
		name: "nbd", what: "4 KiB random write and flush through a network block device", peer: "qemu-nbd",
		programs: []string{"qemu-nbd"}, open: openNBD,
		figures: []figure{
			{name: "depth 1", unit: "ops/s", goal: 0.9}, {name: "depth 16", unit: "ops/s", goal: 0.9},
		},
	}}
}

func openNBD(ctx context.Context, b *bench) (_ *contest, err error) {
	dir, err := os.MkdirTemp(b.dir, "nbd-")
	if err != nil {
		return nil, err
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, who := range []string{"tare", "peer"} {
		// Written, not sparse: neither side shall wait for the file system to find blocks.
		if err := os.WriteFile(path(who+".img"), make([]byte, nbdSize), 0o600); err != nil {
			return nil, fmt.Errorf("write disk: %w", err)
		}
	}
	server, err := nbd.Start(ctx, nbd.Options{Disk: path("tare.img"), Socket: path("tare")})
	if err != nil {
		return nil, err
	}
	argv := []string{"qemu-nbd", "--format=raw", "--persistent", "--socket=" + path("peer"), path("peer.img")}
	peer, err := proc.Start(proc.Command(context.WithoutCancel(ctx), argv...))
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	c := &contest{
		tare: nbdSide(b, path("tare")), peer: nbdSide(b, path("peer")),
		notes: []string{
			fmt.Sprintf("both: %d writes of 4 KiB, each followed by a flush, by tare's client; at depth 16 by 16 "+
				"lanes at once", nbdRounds),
			"qemu-nbd: `qemu-nbd --format=raw --persistent --socket=SOCKET FILE`",
		},
		close: func() error { return errors.Join(server.Close(), peer.Close()) },
	}
	if err := nbdAwait(ctx, path("peer"), peer); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// nbdAwait waits until a server listens.
func nbdAwait(ctx context.Context, socket string, server *proc.Stream) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := nbdtest.Dial(ctx, socket)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Errorf("wait for qemu-nbd: %w; it said: %s", err, server.Diagnose())
		}
	}
}

// nbdSide writes at both depths.
func nbdSide(b *bench, socket string) side {
	return func(ctx context.Context) ([]float64, error) {
		seed := b.rng.Uint64()
		var rates []float64
		for _, depth := range []int{1, 16} {
			rate, err := nbdRate(ctx, socket, depth, seed)
			if err != nil {
				return nil, err
			}
			rates = append(rates, rate)
		}
		return rates, nil
	}
}

// nbdRate is how many writes with their flushes are done in a second.
func nbdRate(ctx context.Context, socket string, depth int, seed uint64) (float64, error) {
	c, err := nbdtest.Dial(ctx, socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	errs := make([]error, depth)
	var lanes sync.WaitGroup
	began := time.Now()
	for i := range depth {
		lanes.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			p := make([]byte, nbdRecord)
			for range nbdRounds {
				p[0]++
				if _, errs[i] = c.WriteAt(p, rng.Int64N(nbdSize/nbdRecord)*nbdRecord); errs[i] == nil {
					errs[i] = c.Flush()
				}
				if errs[i] != nil {
					return
				}
			}
		})
	}
	lanes.Wait()
	return float64(depth*nbdRounds) / time.Since(began).Seconds(), errors.Join(errs...)
}
