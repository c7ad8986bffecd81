package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// clusterFormat is incremented when clusters are made differently.
const clusterFormat = 1

// maxMarker bounds what is read of a cluster's marker, in bytes.
const maxMarker = 4 << 10

// clusterName is the folder of a session's cluster, in the cell's.
const clusterName = "cluster"

// clusterSpace is the size of a new cluster, in bytes: 40 MiB, of which 16 are its log.
const clusterSpace = 64 << 20

// cluster describes a cluster made by initdb. It is made once per session, and each trial's server works on a copy.
// Making one takes ten times as long as copying it, half a minute on an emulated processor, and is not part of a
// restore. A fresh copy makes trials equal: a cluster that was loaded before has a log to overwrite and larger
// catalogues.
type cluster struct {
	Key   string `json:"key"`
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"`
}

// clusterKey lists everything that a cluster depends on.
func (d *database) clusterKey() (string, error) {
	st, err := os.Stat(filepath.Join(d.bin, "initdb"))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("cluster %d by %s of %d bytes from %d for %s", clusterFormat, d.bin, st.Size(),
		st.ModTime().UnixNano(), d.as.Name), nil
}

// furnish gives the trial's server a new cluster: a copy of the session's, which is made if it is missing or was
// changed.
func (d *database) furnish(ctx context.Context, b *workload.Bench, buf []byte) error {
	key, err := d.clusterKey()
	if err != nil {
		return fileio.Explain("look at", d.bin, err)
	}
	began := time.Now()
	made := "earlier"
	if !d.reuse(ctx, key, buf) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		made = "now"
		if err := d.makeCluster(ctx, key, buf); err != nil {
			return err
		}
	}
	b.Note("cluster", made)
	b.Note("cluster_ms", strconv.FormatInt(time.Since(began).Milliseconds(), 10))
	return nil
}

// reuse copies the session's cluster and tells whether it was there and complete. The cause of a failure does not
// matter: a new cluster replaces a damaged one, and any other error occurs again then.
func (d *database) reuse(ctx context.Context, key string, buf []byte) bool {
	have, err := readCluster(d.marker())
	if err != nil || have.Key != key {
		return false
	}
	got, err := d.copyCluster(ctx, buf)
	return err == nil && got.Files == have.Files && got.Bytes == have.Bytes
}

func (d *database) marker() string { return d.pristine + ".json" }

// forget makes the next trial create a new cluster.
func (d *database) forget() error { return removeAll(d.marker()) }

// makeCluster makes the session's cluster and a copy of it. Its marker is written last.
func (d *database) makeCluster(ctx context.Context, key string, buf []byte) error {
	for _, path := range []string{d.marker(), d.pristine, d.data} {
		if err := removeAll(path); err != nil {
			return err
		}
	}
	for _, path := range []string{d.pristine, d.data} {
		if err := d.own(path); err != nil {
			return err
		}
	}
	if err := d.initialise(ctx); err != nil {
		return with(err, removeAll(d.pristine))
	}
	made, err := d.copyCluster(ctx, buf)
	if err != nil {
		return err
	}
	made.Key = key
	text, err := json.Marshal(made)
	if err == nil {
		err = os.WriteFile(d.marker(), text, 0o600)
	}
	if err != nil {
		return fileio.Explain("write", d.marker(), err)
	}
	return nil
}

// initialise runs initdb. The locale is C, which every system has.
func (d *database) initialise(ctx context.Context) error {
	cmd := d.command(ctx, "initdb", "--pgdata="+d.pristine, "--username="+pgUser, "--auth=trust", "--encoding=UTF8",
		"--no-locale", "--no-sync")
	d.as.Become(cmd.SysProcAttr)
	_, err := proc.RunCmd(cmd, nil)
	if err == nil {
		return nil
	}
	f := &record.Failure{Kind: "setup", Message: fmt.Sprintf("restore: make a database cluster as user %s: %v",
		d.as.Name, err)}
	if x, ok := errors.AsType[*proc.ExitError](err); ok {
		f.Evidence = x.Stderr
		if strings.Contains(x.Stderr, "could not look up effective user ID") {
			f.Kind = "refused"
			f.Message += fmt.Sprintf("; PostgreSQL needs a user with a name, but %s has none in this environment's "+
				"/etc/passwd: run the agent as another user, or use load=%s", d.as.Name, loadNone)
		}
	}
	return f
}

// with adds a second error, if there is one. A single error keeps its type, which identifies a failure.
func with(err, other error) error {
	if other == nil {
		return err
	}
	return errors.Join(err, other)
}

// own makes a folder that belongs to the server's account.
func (d *database) own(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fileio.Explain("create", path, err)
	}
	if err := d.as.Give(path); err != nil {
		return d.notTheirs(path, err)
	}
	return nil
}

// notTheirs explains that a folder's owner cannot be changed.
func (d *database) notTheirs(path string, err error) error {
	if !errors.Is(err, os.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
		return fileio.Explain("give the server", path, err)
	}
	_, on := fileio.Volume(path)
	return &record.Failure{Kind: "refused",
		Message: fmt.Sprintf("restore: %s at %s does not allow user %s to own PostgreSQL's files: %v; use a work "+
			"directory on another disk, run the agent as a user other than root, or use load=%s",
			on, path, d.as.Name, err, loadNone)}
}

func readCluster(path string) (c cluster, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMarker))
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}

// copyCluster copies the session's cluster to the folder of the trial's server, and counts the files. The server's user
// can write to both folders, but os.Root does not follow links that lead out of them.
func (d *database) copyCluster(ctx context.Context, buf []byte) (c cluster, err error) {
	if err := removeAll(d.data); err != nil {
		return c, err
	}
	if err := d.own(d.data); err != nil {
		return c, err
	}
	from, err := os.OpenRoot(d.pristine)
	if err != nil {
		return c, err
	}
	defer from.Close()
	to, err := os.OpenRoot(d.data)
	if err != nil {
		return c, fileio.Explain("open", d.data, err)
	}
	defer to.Close()
	err = fs.WalkDir(from.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case name == ".":
			return nil
		case e.IsDir():
			err = to.Mkdir(name, 0o700)
		case e.Type().IsRegular():
			var n int64
			n, err = copyFile(to, from, name, buf)
			c.Files++
			c.Bytes += n
		default:
			return fmt.Errorf("%s is neither a file nor a folder", name)
		}
		if err == nil {
			err = d.as.GiveIn(to, name)
		}
		return err
	})
	if err != nil {
		return c, fileio.Explain("copy a cluster to", d.data, err)
	}
	return c, nil
}

// copyFile copies a file from one root to another.
func copyFile(to, from *os.Root, name string, buf []byte) (n int64, err error) {
	r, err := from.Open(name)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	w, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	// Plain reads and writes: if the copy shared blocks with the original, the server would have to unshare them while
	// it is measured.
	n, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, buf)
	return n, errors.Join(err, w.Close())
}
