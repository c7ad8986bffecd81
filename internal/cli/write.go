package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeWhole writes a file so that its name only ever holds all of it: into a new file beside it that then takes its
// place. What is no regular file (a pipe, /dev/stdout) is written to as it is, and a link keeps pointing where it did.
func writeWhole(name string, render func(io.Writer) error) error {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return writeThrough(name, render)
	}
	file, err := newBeside(name)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	buffered := bufio.NewWriterSize(file, 1<<16)
	err = render(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		os.Remove(file.Name())
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// writable returns the reason why writeWhole could not write a file, before minutes are spent on its content. "" and
// "-" are no files.
func writable(name string) error {
	if name == "" || name == "-" {
		return nil
	}
	given := name
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("write %s: it is a folder; name a file", given)
	case err == nil && !info.Mode().IsRegular():
		return nil // opening a pipe would wait for its reader
	}
	file, err := newBeside(name)
	if err != nil {
		return fmt.Errorf("write %s: %w", given, err)
	}
	file.Close()
	return os.Remove(file.Name())
}

// newBeside makes a file with the permissions a new one of that name would have: os.CreateTemp's are the owner's alone.
func newBeside(name string) (*os.File, error) {
	for i := range 100 {
		file, err := os.OpenFile(fmt.Sprintf("%s.%d-%d.part", name, os.Getpid(), i), os.O_WRONLY|os.O_CREATE|os.O_EXCL,
			0o666)
		if !errors.Is(err, fs.ErrExist) {
			if p, ok := errors.AsType[*fs.PathError](err); ok {
				err = p.Err // the user knows the file by another name, which the caller says
			}
			return file, err
		}
	}
	return nil, errors.New("there are 100 unfinished files in its folder; remove those that end in .part")
}

func writeThrough(name string, render func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		if err = render(file); err != nil {
			file.Close()
		} else {
			err = file.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
