//go:build !linux

package fileops

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Operations that only Linux builds have.
const (
	flagDirect = 0
	seekData   = -1
	seekHole   = -1
)

// names are the errors that matter for an answer; for others the text is reported.
var names = map[syscall.Errno]string{
	syscall.EEXIST: "EEXIST", syscall.ENOENT: "ENOENT", syscall.EACCES: "EACCES", syscall.EINVAL: "EINVAL",
	syscall.ENOSYS:       "ENOSYS",
	syscall.ENAMETOOLONG: "ENAMETOOLONG", syscall.EPERM: "EPERM", syscall.EROFS: "EROFS", syscall.ENOSPC: "ENOSPC",
	syscall.ESTALE: "ESTALE",
}

func errorName(err error) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return names[e]
	}
	return ""
}

func aligned(p []byte) []byte { return p }

func dataSync(f *os.File) error { return f.Sync() }

func status(info fs.FileInfo) *Status {
	return &Status{Size: info.Size(), MtimeNS: info.ModTime().UnixNano(), Mode: info.Mode(), Blocks: -1}
}

// listing returns names without types, because the standard library may get types from stat.
func listing(dir *os.File) ([]Entry, error) {
	names, err := dir.Readdirnames(maxEntries)
	var out []Entry
	for _, n := range names {
		out = append(out, Entry{[]byte(n), "untold"})
	}
	return out, err
}

type mapping struct{ memory []byte }

func (*mapping) Close() error { return nil }

func (*Box) access(context.Context, *Request, *Reply) error   { return ErrUnsupported }
func (*Box) setXattr(context.Context, *Request, *Reply) error { return ErrUnsupported }
func (*Box) getXattr(context.Context, *Request, *Reply) error { return ErrUnsupported }
func (*Box) lock(context.Context, *Request, *Reply) error     { return ErrUnsupported }
func (*Box) unlock(context.Context, *Request, *Reply) error   { return ErrUnsupported }
func (*Box) mapFile(context.Context, *Request, *Reply) error  { return ErrUnsupported }
func (*Box) poke(context.Context, *Request, *Reply) error     { return ErrUnsupported }
func (*Box) peek(context.Context, *Request, *Reply) error     { return ErrUnsupported }
func (*Box) watch(context.Context, *Request, *Reply) error    { return ErrUnsupported }
func (*Box) events(context.Context, *Request, *Reply) error   { return ErrUnsupported }

func statOnce(dir *os.Root, _ *os.File, name string) error {
	_, err := dir.Lstat(name)
	return err
}

func createOnce(dir *os.Root, _ *os.File, name string) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), dir.Remove(name))
}
