package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"tare/internal/measure/fileops"
	"tare/internal/measure/wire"
)

// probeCell names the directory for the semantics card.
const probeCell = "card"

// probes is the directory for the semantics card: at most one at a time.
type probes struct {
	box *fileops.Box
	// workdir is set if box's directory is one of the agent's own cells, which is removed with it.
	workdir *workdir
}

// probed is the result of an operation.
type probed struct {
	reply fileops.Reply
	err   error
}

// probe carries out one operation on files. It runs beside the agent's loop, which still answers pings and accepts a
// Cancel, because a call on a tested file system may never return.
func (a *server) probe(ctx context.Context, f wire.Frame) error {
	r, err := fileops.Decode(f.Payload)
	if err != nil {
		return a.refuse(f, "refused", err.Error())
	}
	var wd *workdir
	if r.Op == fileops.Begin {
		var gone error
		err, gone = a.reach(ctx, r.Root, "files are being tested", func(there *workdir) (told func()) {
			return func() { wd = there }
		})
		switch {
		case gone != nil:
			return gone
		case err != nil:
			return a.refuse(f, "probe", err.Error())
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var got probed
	done := make(chan struct{})
	go func() {
		defer close(done)
		got.reply, got.err = a.probes.do(ctx, &r, wd)
	}()
	if gone := a.attend(done, cancel, "files are being tested"); gone != nil {
		return gone
	}
	if got.err != nil {
		return a.refuse(f, "probe", got.err.Error())
	}
	return a.out.JSON(wire.TypeProbe, f.Trial, got.reply)
}

// do serves the operations that make or end a box.
func (p *probes) do(ctx context.Context, r *fileops.Request, wd *workdir) (fileops.Reply, error) {
	switch r.Op {
	case fileops.Begin, fileops.Join:
		if err := p.close(ctx); err != nil {
			return fileops.Reply{}, err
		}
		return p.begin(ctx, r, wd)
	case fileops.End:
		err := p.close(ctx)
		debug.FreeOSMemory() // trials come next
		return fileops.Reply{}, err
	}
	if p.box == nil {
		return fileops.Reply{}, errors.New("there is no directory for tests of files yet")
	}
	return p.box.Do(ctx, *r)
}

// begun is a directory for tests of files, and its path below the requested root.
type begun struct {
	box *fileops.Box
	dir string
	err error
}

// begin opens a directory, which may hang on a dead server.
func (p *probes) begin(ctx context.Context, r *fileops.Request, wd *workdir) (fileops.Reply, error) {
	done := make(chan begun, 1)
	p.workdir = wd
	go func() {
		var got begun
		if r.Op == fileops.Join {
			got.box, got.err = fileops.Adopt(r.Root, string(r.Name))
		} else {
			got = beginIn(wd)
		}
		done <- got
	}()
	select {
	case got := <-done:
		p.box = got.box
		return fileops.Reply{Dir: got.dir}, got.err
	case <-ctx.Done():
		return fileops.Reply{}, fmt.Errorf("open the directory for tests of files: %w", ctx.Err())
	}
}

// beginIn makes the directory where the agent's cells are.
func beginIn(wd *workdir) (got begun) {
	path, err := wd.cell(probeCell)
	if err != nil {
		return begun{err: err}
	}
	if got.dir, err = filepath.Rel(wd.base, path); err != nil {
		return begun{err: fmt.Errorf("find the directory for tests of files: %w", err)}
	}
	got.dir = filepath.ToSlash(got.dir)
	got.box, got.err = fileops.In(path)
	return got
}

// close ends a box and removes its directory. Files must be closed before they are removed: on a network file system,
// an open file is only renamed.
func (p *probes) close(ctx context.Context) error {
	if p.box != nil {
		if err := p.box.Close(); err != nil {
			return err
		}
		p.box = nil
	}
	if p.workdir == nil {
		return nil
	}
	wd := p.workdir
	p.workdir = nil
	return wd.release(ctx, probeCell)
}
