package fileops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// race has threads do the same over and over, each with a file of its own in the directory Name, and counts how often.
func (b *Box) race(ctx context.Context, r *Request, reply *Reply) error {
	dir, err := b.root.OpenRoot(string(r.Name))
	if err != nil {
		return err
	}
	defer dir.Close()
	top, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer top.Close()
	var turn func(d *os.Root, top *os.File, name string) error
	switch r.Kind {
	case RaceStat:
		turn = statOnce
	case RaceCreate:
		turn = createOnce
	default:
		return fmt.Errorf("no race is called %q", clip(r.Kind))
	}
	threads := max(r.Threads, 1)
	counts, errs := make([]int, threads), make([]error, threads)
	names := make([]string, threads)
	for i := range names {
		names[i] = r.Kind + "-" + strconv.Itoa(i)
		if r.Kind == RaceStat {
			if err := dir.WriteFile(names[i], nil, 0o600); err != nil {
				return err
			}
		}
	}
	began := time.Now() // one moment for both ends: between two this thread may not get the processor
	ctx, cancel := context.WithDeadline(ctx, began.Add(time.Duration(r.TimeoutNS)))
	defer cancel()
	var team sync.WaitGroup
	for i := range threads {
		team.Go(func() {
			// A thread of its own, as a program with threads has, and not one of the runtime's choice.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for ctx.Err() == nil && errs[i] == nil {
				errs[i] = turn(dir, top, names[i])
				counts[i]++
			}
		})
	}
	team.Wait()
	reply.WaitedNS, reply.CPUs = int64(time.Since(began)), runtime.NumCPU()
	for _, n := range counts {
		reply.Count += n
	}
	return errors.Join(errs...)
}

// claim makes files only if they are new. Two sides that claim the same names at the same time must not both be first.
func (b *Box) claim(ctx context.Context, r *Request, reply *Reply) error {
	for i := range r.Count {
		f, err := b.root.OpenFile(fmt.Sprintf("%s-%d", r.Name, i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil {
			reply.Count++
			err = f.Close()
		} else if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("claimed %d of %d names: %w", i+1, r.Count, ctx.Err())
		}
	}
	return nil
}

// perDirectory is how many files Fill puts into one directory, about as many as a large source folder has.
const perDirectory = 250

func fillName(dir []byte, i int) (folder, file string) {
	folder = fmt.Sprintf("%s/%d", dir, i/perDirectory)
	return folder, fmt.Sprintf("%s/%d", folder, i)
}

// fill writes files, made or emptied, and makes the directories they need.
func (b *Box) fill(ctx context.Context, r *Request, reply *Reply) error {
	b.expect(r.Count)
	if err := b.root.Mkdir(string(r.Name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for i := range r.Count {
		folder, name := fillName(r.Name, i)
		if i%perDirectory == 0 {
			if err := b.root.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		if err := b.root.WriteFile(name, r.Data, 0o644); err != nil {
			return err
		}
		reply.Count++
		if ctx.Err() != nil {
			return fmt.Errorf("wrote %d of %d files: %w", i+1, r.Count, ctx.Err())
		}
	}
	return nil
}

// verify counts the files of fill, from number Offset on, that hold the data and nothing else.
func (b *Box) verify(ctx context.Context, r *Request, reply *Reply) error {
	b.expect(r.Count)
	p := make([]byte, len(r.Data)+1)
	for i := int(min(r.Offset, MaxCount)); i < r.Count; i++ {
		_, name := fillName(r.Name, i)
		f, err := b.root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		n, err := io.ReadFull(f, p)
		f.Close()
		if errors.Is(err, io.ErrUnexpectedEOF) && bytes.Equal(p[:n], r.Data) {
			reply.Count++
		}
		if ctx.Err() != nil {
			return fmt.Errorf("read %d of %d files: %w", i+1, r.Count, ctx.Err())
		}
	}
	return nil
}
