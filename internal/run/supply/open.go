package supply

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
	_ "time/tzdata" // the log's zone may be one that this system does not have

	"tare/internal/sys/bzip2"
	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/log"
)

// bunzipWorkers bounds the memory for reading bzip2.
const bunzipWorkers = 2

// Parts returns functions for log.Join that open and decompress the files of a log. "-" is standard input.
func Parts(names []string, stdin io.Reader) (parts []func() (io.ReadCloser, error)) {
	for _, name := range names {
		parts = append(parts, func() (io.ReadCloser, error) {
			if name == "-" {
				return decompress(name, io.NopCloser(stdin))
			}
			return open(name)
		})
	}
	return parts
}

// Plain returns an error if a file is compressed, and thus does not grow.
func Plain(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, packed, err := log.Decompress(f, func(r io.Reader) io.Reader { return r })
	if err == nil && packed != "" {
		err = fmt.Errorf("it is compressed with %s, and does not grow", packed)
	}
	return err
}

// open opens a file that may be compressed.
func open(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return decompress(name, f)
}

func decompress(name string, src io.ReadCloser) (io.ReadCloser, error) {
	p := &part{name: name, closers: []io.Closer{src}}
	var err error
	p.src, _, err = log.Decompress(src, func(src io.Reader) io.Reader {
		z := bzip2.NewReader(src, bunzipWorkers)
		p.closers = slices.Insert(p.closers, 0, io.Closer(z))
		return z
	})
	if err != nil {
		return nil, errors.Join(p.named(err), p.Close())
	}
	return p, nil
}

// part is a decompressed file. Its errors contain its name.
type part struct {
	name    string
	src     io.Reader
	closers []io.Closer
}

func (p *part) Read(b []byte) (int, error) {
	n, err := p.src.Read(b)
	if err != nil && err != io.EOF {
		err = p.named(err)
	}
	return n, err
}

func (p *part) named(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

func (p *part) Close() error {
	var errs []error
	for _, c := range p.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// LogOptions returns the options of a log from the texts that a user gives, which may be empty. Errors begin with the
// name of the parameter.
func LogOptions(format, prefix, dialect, zone string) (o log.Options, err error) {
	o = log.Options{Format: log.Format(format), Prefix: prefix}
	switch dialect {
	case "", "mysql":
	case "postgresql":
		o.Dialect = lex.PostgreSQL
	default:
		return o, fmt.Errorf("dialect is mysql or postgresql, not %q", dialect)
	}
	if o.Zone, err = time.LoadLocation(zone); err != nil {
		return o, fmt.Errorf("zone: %w", err)
	}
	return o, nil
}
