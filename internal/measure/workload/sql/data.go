package sql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/replay"
	"tare/internal/sys/sql/datadir"
	"tare/internal/sys/sql/lex"
)

// dataParam is the parameter for the data of a private server.
func dataParam() workload.Param {
	return workload.Param{Name: "data", Type: workload.Text,
		Doc: "data for the server that tare starts, on the controller's machine: a dump (FILE.sql, " +
			"also gzip, bzip2, zstd, xz), a stopped server's data directory, or shop, a synthetic shop"}
}

// dataOf is the content that the parameter data names.
func dataOf(p workload.Params) content {
	// A workload that writes shares no data with one that does not, whose results would change.
	c := content{key: "data=" + p["data"] + " items=" + p["items"] + " writes=" + p["writes"], database: logged}
	if p["database"] == "" && p["log"] != "shop" { // the log names it
		c.key += " log=" + p["log"] + " prefix=" + p["prefix"]
	}
	c.fill = func(ctx context.Context, b *workload.Bench, t *target) error {
		path := b.Files["data"]
		if path == "" {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(t.restore(ctx, f, b), f.Close())
	}
	return c
}

// logged returns the database that the log names.
func logged(b *workload.Bench) (string, error) {
	path := b.Files["log"]
	if path == "" {
		return "", nil
	}
	t, f, err := replay.OpenTrace(path)
	if err != nil {
		return "", err
	}
	return t.Meta().Database, f.Close()
}

// isDirectory reports whether the data is a data directory.
func isDirectory(b *workload.Bench) (bool, error) {
	if b.Files["data"] == "" {
		return false, nil
	}
	f, err := os.Open(b.Files["data"])
	if err != nil {
		return false, err
	}
	defer f.Close()
	return datadir.Is(f), nil
}

// unpack creates the data directory.
func unpack(b *workload.Bench, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	return datadir.UnpackFile(b.Files["data"], dir, false)
}

// restore carries out the statements of a dump.
func (t *target) restore(ctx context.Context, src io.Reader, b *workload.Bench) error {
	c, err := dial(ctx, t, false)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, c.interrupt)()
	d := &dump{src: src}
	if !t.mysql() {
		d.options.Dialect = lex.PostgreSQL
	}
	owners := 0
	for n := 1; ; n++ {
		text, err := d.next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = restoreOne(c, d, text)
		}
		if r, ok := errors.AsType[*refusal](err); ok && r.exists() {
			continue // the database was made before, for the log names the same
		}
		if r, ok := errors.AsType[*refusal](err); ok && r.lacksRole(text) {
			owners++
			continue
		}
		if err != nil {
			return errors.Join(fmt.Errorf("statement %d of the dump, %.60q: %w", n, text, err), c.close())
		}
	}
	if owners > 0 {
		b.Note("data_left_out", fmt.Sprintf("%d statements about users that do not exist", owners))
	}
	return c.close()
}

// lacksRole tells whether PostgreSQL refused a statement of a dump because of a user that does not exist. A dump makes
// its users owners and grants them rights, which the replay does not need. The code alone may also be of a type.
func (r *refusal) lacksRole(text []byte) bool {
	const noSuchObject = "42704"
	return r.code == noSuchObject && (strings.HasPrefix(r.text, `role "`) || aboutRoles.Match(text))
}

// aboutRoles matches the statements of a dump that name users, for servers that tell errors in another language.
var aboutRoles = regexp.MustCompile(`(?is)^\s*(grant|revoke|alter\s+default\s+privileges|alter\s.*\sowner\s+to)\s`)

func restoreOne(c client, d *dump, text []byte) error {
	if p, ok := c.(*postgresClient); ok && d.isCopy(text) {
		text = bytes.Clone(text)
		if err := d.rows(); err != nil {
			return err
		}
		return p.refused(p.conn.CopyIn(text, d.row))
	}
	return c.query(text, &answer{})
}
