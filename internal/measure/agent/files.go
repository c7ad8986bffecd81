package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"tare/internal/measure/wire"
)

// filesDir is the folder of the agent's directory, beside those of the cells, that has the controller's files, each
// named by its digest. A cell's name has no dot.
const filesDir = "files.d"

// unfinished is the ending of a file's name until all of it is there.
const unfinished = ".part"

// file takes a piece of a file and answers how much of it is there.
func (a *server) file(ctx context.Context, f wire.Frame) error {
	p, err := wire.UnpackFilePiece(f.Payload)
	if err != nil {
		return a.refuse(f, "refused", err.Error())
	}
	var have int64
	var failed error
	err, gone := a.reach(ctx, "", "a file is being received", func(wd *workdir) (told func()) {
		n, err := wd.keep(&p)
		return func() { have, failed = n, err }
	})
	if gone != nil {
		return gone
	}
	if err = errors.Join(failed, err); err != nil {
		return a.refuse(f, "file", err.Error())
	}
	return a.out.JSON(wire.TypeFile, f.Trial, wire.FileHeld{Have: have})
}

// keep appends a piece to its file and returns how many bytes of it there are. A piece that does not follow on is left
// out: the answer tells where to go on. A file whose digest is not its name is removed.
func (w *workdir) keep(p *wire.FilePiece) (have int64, err error) {
	if w.err != nil {
		return 0, w.err
	}
	dir := filepath.Join(w.path, filesDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("make the directory of files: %w", err)
	}
	whole := filepath.Join(dir, p.Name())
	if st, err := os.Lstat(whole); err == nil && st.Size() == p.Size {
		return p.Size, nil
	}
	f, err := os.OpenFile(whole+unfinished, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, fmt.Errorf("keep a file: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			have, err = 0, errors.Join(fmt.Errorf("keep a file: %w", err), os.Remove(f.Name()))
		}
	}()
	if have, err = f.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	if have == p.Offset && len(p.Data) > 0 {
		n, err := f.Write(p.Data)
		if have += int64(n); err != nil {
			return 0, err
		}
	}
	if have < p.Size {
		return have, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return 0, err
	}
	if have != p.Size || !bytes.Equal(digest.Sum(nil), p.Digest[:]) {
		return 0, errors.New("it is not what its digest says")
	}
	return have, os.Rename(f.Name(), whole)
}

// filesOf are the paths of a job's files, for a worker whose own directory is home.
func filesOf(j wire.Job, home string) map[string]string {
	if len(j.Files) == 0 || home == "" {
		return nil
	}
	paths := make(map[string]string, len(j.Files))
	for param, name := range j.Files {
		if d, err := hex.DecodeString(name); err == nil && len(d) == sha256.Size {
			paths[param] = filepath.Join(filepath.Dir(home), filesDir, hex.EncodeToString(d))
		}
	}
	return paths
}
