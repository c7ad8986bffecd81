package fileops

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// operation has the function of an operation, and the names in its request that must be paths below the directory.
type operation struct {
	do       func(b *Box, ctx context.Context, r *Request, reply *Reply) error
	name, to bool
}

// operations are the operations of a box. Begin, Join and End belong to the owner of the box.
var operations = map[Op]operation{
	Nop:      {do: func(*Box, context.Context, *Request, *Reply) error { return nil }},
	Open:     {do: (*Box).open, name: true},
	CloseOp:  {do: (*Box).closeHandle},
	Write:    {do: (*Box).write},
	Read:     {do: (*Box).read},
	Put:      {do: (*Box).put, name: true},
	Get:      {do: (*Box).get, name: true},
	Flush:    {do: (*Box).flush},
	Truncate: {do: (*Box).truncate},
	Seek:     {do: (*Box).seek},
	Stat:     {do: (*Box).stat},
	List:     {do: (*Box).list, name: true},
	Mkdir:    {do: plain(func(b *Box, r *Request) error { return b.root.Mkdir(string(r.Name), 0o700) }), name: true},
	Rename: {do: plain(func(b *Box, r *Request) error { return b.root.Rename(string(r.Name), string(r.To)) }),
		name: true, to: true},
	Remove: {do: plain(func(b *Box, r *Request) error { return b.root.Remove(string(r.Name)) }), name: true},
	Link: {do: plain(func(b *Box, r *Request) error { return b.root.Link(string(r.Name), string(r.To)) }),
		name: true, to: true},
	Symlink: {do: plain(func(b *Box, r *Request) error { return b.root.Symlink(string(r.To), string(r.Name)) }),
		name: true},
	Readlink: {do: (*Box).readlink, name: true},
	Chmod: {do: plain(func(b *Box, r *Request) error { return b.root.Chmod(string(r.Name), fs.FileMode(r.Mode)) }),
		name: true},
	Access:   {do: (*Box).access, name: true},
	Times:    {do: (*Box).times, name: true},
	SetXattr: {do: (*Box).setXattr},
	GetXattr: {do: (*Box).getXattr},
	Lock:     {do: (*Box).lock},
	Unlock:   {do: (*Box).unlock},
	Map:      {do: (*Box).mapFile},
	Poke:     {do: (*Box).poke},
	Peek:     {do: (*Box).peek},
	Watch:    {do: (*Box).watch},
	Events:   {do: (*Box).events, name: true},
	Wait:     {do: (*Box).wait},
	Race:     {do: (*Box).race, name: true},
	Claim:    {do: (*Box).claim, name: true},
	Fill:     {do: (*Box).fill, name: true},
	Verify:   {do: (*Box).verify, name: true},
}

// plain is an operation that returns only an error.
func plain(f func(b *Box, r *Request) error) func(*Box, context.Context, *Request, *Reply) error {
	return func(b *Box, _ context.Context, r *Request, _ *Reply) error { return f(b, r) }
}

// mode is the request's mode, by default that of an ordinary file.
func (r *Request) mode() fs.FileMode {
	if r.Mode == 0 {
		return 0o644
	}
	return fs.FileMode(r.Mode)
}

func (b *Box) open(_ context.Context, r *Request, reply *Reply) error {
	how := os.O_RDONLY
	for _, f := range []struct {
		flag Flag
		how  int
	}{{ForWriting, os.O_RDWR}, {Create, os.O_CREATE}, {Exclusive, os.O_EXCL}, {Empty, os.O_TRUNC},
		{Append, os.O_APPEND}} {
		if r.Flags&f.flag != 0 {
			how |= f.how
		}
	}
	if r.Flags&Direct != 0 {
		if flagDirect == 0 {
			return ErrUnsupported
		}
		how |= flagDirect
	}
	f, err := b.root.OpenFile(string(r.Name), how, r.mode())
	if err != nil {
		return err
	}
	return b.keep(f, reply)
}

func (b *Box) closeHandle(_ context.Context, r *Request, _ *Reply) error {
	h, err := held[io.Closer](b, r.Handle)
	if err != nil {
		return err
	}
	delete(b.handles, r.Handle)
	return h.Close()
}

func (b *Box) write(_ context.Context, r *Request, _ *Reply) error {
	f, err := held[*os.File](b, r.Handle)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(aligned(r.Data), r.Offset)
	return err
}

func (b *Box) read(_ context.Context, r *Request, reply *Reply) error {
	f, err := held[*os.File](b, r.Handle)
	if err != nil {
		return err
	}
	return readAt(f, r.Offset, r.Size, reply)
}

func readAt(f *os.File, offset, size int64, reply *Reply) error {
	p := aligned(make([]byte, size))
	n, err := f.ReadAt(p, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	reply.Data = p[:n]
	return err
}

func (b *Box) put(_ context.Context, r *Request, _ *Reply) error {
	how := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if r.Flags&Append != 0 {
		how = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := b.root.OpenFile(string(r.Name), how, r.mode())
	if err != nil {
		return err
	}
	_, err = f.Write(r.Data)
	return errors.Join(err, f.Close())
}

func (b *Box) get(_ context.Context, r *Request, reply *Reply) error {
	f, err := b.root.Open(string(r.Name))
	if err != nil {
		return err
	}
	defer f.Close()
	return readAt(f, 0, r.Size, reply)
}

// flush times small writes, with and without waiting for the storage. Each changes the data, because a flush without
// changes does nothing.
func (b *Box) flush(ctx context.Context, r *Request, reply *Reply) error {
	f, err := held[*os.File](b, r.Handle)
	if err != nil {
		return err
	}
	p := make([]byte, r.Size)
	for i := range min(r.Count, 256) {
		for j := range p {
			p[j] = byte(i + j + 1)
		}
		began := time.Now()
		if _, err := f.WriteAt(p, 0); err != nil {
			return err
		}
		if r.Sync {
			if err := dataSync(f); err != nil {
				return err
			}
		}
		reply.NS = append(reply.NS, int64(time.Since(began)))
		if ctx.Err() != nil {
			break // what there is answers the question
		}
	}
	return nil
}

func (b *Box) truncate(_ context.Context, r *Request, _ *Reply) error {
	f, err := held[*os.File](b, r.Handle)
	if err != nil {
		return err
	}
	return f.Truncate(r.Size)
}

func (b *Box) seek(_ context.Context, r *Request, reply *Reply) error {
	f, err := held[*os.File](b, r.Handle)
	if err != nil {
		return err
	}
	whence := seekData
	if r.Hole {
		whence = seekHole
	}
	if whence < 0 {
		return ErrUnsupported
	}
	reply.Offset, err = f.Seek(r.Offset, whence)
	return err
}

func (b *Box) stat(_ context.Context, r *Request, reply *Reply) error {
	var info fs.FileInfo
	var err error
	switch {
	case len(r.Name) == 0:
		var f *os.File
		if f, err = held[*os.File](b, r.Handle); err == nil {
			info, err = f.Stat()
		}
	case r.Follow:
		info, err = b.root.Stat(string(r.Name))
	default:
		info, err = b.root.Lstat(string(r.Name))
	}
	if err != nil {
		return err
	}
	reply.Stat = status(info)
	return nil
}

func (b *Box) list(_ context.Context, r *Request, reply *Reply) error {
	f, err := b.root.Open(string(r.Name))
	if err != nil {
		return err
	}
	defer f.Close()
	reply.Entries, err = listing(f)
	return err
}

func (b *Box) readlink(_ context.Context, r *Request, reply *Reply) error {
	to, err := b.root.Readlink(string(r.Name))
	reply.Data = []byte(to)
	return err
}

func (b *Box) times(_ context.Context, r *Request, _ *Reply) error {
	at := time.Unix(0, r.TimeNS)
	return b.root.Chtimes(string(r.Name), at, at)
}
