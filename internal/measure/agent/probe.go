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

// probeCell names the directory in which files are tried out.
const probeCell = "card"

// probes is where the controller has files tried out: at most one directory at a time.
type probes struct {
	box *fileops.Box
	// workdir is where box's directory is one of the agent's own cells, which is removed with it.
	workdir *workdir
}

// probed is what became of an operation.
type probed struct {
	reply fileops.Reply
	err   error
}

// probe carries out one operation on files. It runs beside the agent's loop, which goes on answering pings and takes a
// Cancel, because a file system that is being tried out may not return from a call.
func (a *server) probe(ctx context.Context, f wire.Frame) error {
	r, err := fileops.Decode(f.Payload)
	if err != nil {
		return a.refuse(f, "refused", err.Error())
	}
	var wd *workdir
	if r.Op == fileops.Begin {
		var gone error
		wd, err, gone = reach(a, ctx, r.Root, "files are being tried out", func(wd *workdir) *workdir { return wd })
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
	if gone := a.attend(done, cancel, "files are being tried out"); gone != nil {
		return gone
	}
	if got.err != nil {
		return a.refuse(f, "probe", got.err.Error())
	}
	return a.out.JSON(wire.TypeProbe, f.Trial, got.reply)
}

// do serves the operations that a box cannot, because it is not there before or after them.
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
		return fileops.Reply{}, errors.New("no directory to try files in was made yet")
	}
	return p.box.Do(ctx, *r)
}

// begun is a directory to try files in, and its path below the root that was asked for.
type begun struct {
	box *fileops.Box
	dir string
	err error
}

// begin opens a directory, which a dead server may never answer.
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
		return fileops.Reply{}, fmt.Errorf("open directory to try files in: %w", ctx.Err())
	}
}

// beginIn makes the directory where the agent's cells are.
func beginIn(wd *workdir) (got begun) {
	path, err := wd.cell(probeCell)
	if err != nil {
		return begun{err: err}
	}
	if got.dir, err = filepath.Rel(wd.base, path); err != nil {
		return begun{err: fmt.Errorf("find directory to try files in: %w", err)}
	}
	got.dir = filepath.ToSlash(got.dir)
	got.box, got.err = fileops.In(path)
	return got
}

// close ends a box and removes its directory. Files must be closed before they are removed: where a server has them, an
// open one lives on under another name.
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
