package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tare/internal/lab/leftover"
)

// note lists the changes to undo when a capture ends. It is on the disk before anything is done. It contains no
// password.
type note struct {
	Owner   string   `json:"owner"`
	Where   string   `json:"where,omitempty"` // the machine and PID namespace of the owner
	Target  Target   `json:"target"`
	Changes []Change `json:"changes"`
	Files   []string `json:"files"` // of the server
	Part    string   `json:"part"`  // the unfinished output
	path    string
}

// noteFolder is below the user's cache folder.
const noteFolder = "tare/captures"

func notes() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the folder in which the server's settings are saved: %w", err)
	}
	return filepath.Join(base, filepath.FromSlash(noteFolder)), nil
}

// write writes the note and waits until it is on the disk.
func (n *note) write(name string) error {
	folder, err := notes()
	if err != nil {
		return err
	}
	self, err := leftover.Self()
	if err != nil {
		return err
	}
	n.Owner, n.Where, n.path = self.String(), self.Where, filepath.Join(folder, name+".json")
	text, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(n.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("save the server's settings, to restore them later: %w", err), os.Remove(n.path))
	}
	if d, err := os.Open(folder); err == nil {
		_ = d.Sync() // some file systems know no fsync of a folder
		_ = d.Close()
	}
	return nil
}

// remove removes the files, and the note if that succeeds. It returns the files of the server that cannot be removed
// from here; those of a far one never can.
func (n *note) remove(far bool) (left []string, err error) {
	var errs []error
	for _, file := range append(n.Files, n.Part) {
		_, err := os.Stat(filepath.Dir(file))
		if err == nil {
			if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) && (!far || file == n.Part) {
				err = nil
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			left = append(left, file)
		case err != nil:
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return left, err
	}
	return left, os.Remove(n.path)
}

// String lists the changes to undo.
func (n *note) String() string {
	text := "capture of " + n.Target.String()
	var names []string
	for _, c := range n.Changes {
		names = append(names, c.Name)
	}
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	return text
}

// Clean restores the settings that killed captures of this user changed and removes their files, or only names the
// captures when dry. It returns a line for each and goes on after an error.
func Clean(ctx context.Context, dry bool, getenv func(string) string) (lines []string, err error) {
	folder, err := notes()
	if err != nil {
		return nil, nil // then there is no note either
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil
	}
	var errs []error
	for _, e := range entries {
		n, err := readNote(filepath.Join(folder, e.Name()))
		if err != nil {
			errs = append(errs, err)
		}
		if n == nil {
			continue
		}
		line := n.String()
		if !dry {
			left, err := n.undo(ctx, getenv)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", n, err))
				continue
			}
			for _, text := range left {
				line += "; " + text
			}
		}
		lines = append(lines, line)
	}
	return lines, errors.Join(errs...)
}

// unfinished is how old a note must be that was never written to its end: then no setting was changed.
const unfinished = time.Hour

// readNote reads the note of a capture that has ended; it returns nil for all others.
func readNote(path string) (*note, error) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil // another user's
	}
	n := &note{}
	if json.Unmarshal(text, n) != nil {
		if time.Since(info.ModTime()) > unfinished {
			return nil, os.Remove(path)
		}
		return nil, nil
	}
	n.path = path
	owner, err := leftover.ParseOwner(n.Owner)
	if owner.Where = n.Where; err != nil || owner.Alive() {
		return nil, err
	}
	return n, nil
}

// undo restores the settings and removes the files. It returns those that are left as they are.
func (n *note) undo(ctx context.Context, getenv func(string) string) (left []string, err error) {
	far := false
	if len(n.Changes) > 0 {
		s, err := connect(ctx, &n.Target, getenv)
		if err != nil {
			return nil, err
		}
		others, err := s.restore(ctx, n.Changes)
		far = s.far()
		left = leaves(others)
		if err = errors.Join(err, s.close()); err != nil {
			return left, err
		}
	}
	files, err := n.remove(far)
	return append(left, remain(files)...), err
}

func leaves(others []string) (texts []string) {
	for _, name := range others {
		texts = append(texts, name+" has been changed by somebody else since, and is left as it is")
	}
	return texts
}

func remain(files []string) (texts []string) {
	for _, file := range files {
		texts = append(texts, file+" cannot be removed from here: remove it on the server's machine")
	}
	return texts
}
