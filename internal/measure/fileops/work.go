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

// race runs threads that repeat an operation, each on its own file in the directory Name, and counts the repetitions.
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
		return fmt.Errorf("there is no race %q", clip(r.Kind))
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
	began := time.Now() // one clock reading for both, because this thread may be preempted between two readings
	ctx, cancel := context.WithDeadline(ctx, began.Add(time.Duration(r.TimeoutNS)))
	defer cancel()
	var team sync.WaitGroup
	for i := range threads {
		team.Go(func() {
			// Each worker has its own thread, as in a program with threads.
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

// claim makes files with O_EXCL. Of two sides that claim the same name at the same time, only one may succeed.
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

// perDirectory is the number of files that Fill puts into one directory, about as many as in a large source folder.
const perDirectory = 250

func fillName(dir []byte, i int) (folder, file string) {
	folder = fmt.Sprintf("%s/%d", dir, i/perDirectory)
	return folder, fmt.Sprintf("%s/%d", folder, i)
}

// fill creates or truncates files, writes them, and makes their directories.
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

// verify counts the files of fill, from number Offset on, whose content is exactly the data.
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
