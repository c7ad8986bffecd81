package dispatch

import (
	"errors"
	"fmt"
	"os"

	"tare/internal/bundle"
)

// receive stores a part's result as write writes it: whole, sound and under its name, or not at all. After an error the
// host still has it.
func receive(dir string, p *Part, write func(f *os.File) error) error {
	to := Packed(dir, p)
	f, err := os.OpenFile(to+".part", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("fetch the result: %w", err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = sound(to + ".part")
	}
	if err == nil {
		err = os.Rename(to+".part", to)
	}
	if err != nil {
		os.Remove(to + ".part")
		return fmt.Errorf("fetch the result: %w", err)
	}
	return nil
}

// sound checks that a packed bundle came as it was packed.
func sound(packed string) error {
	dir := packed + ".checked"
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return bundle.Unpack(packed, dir)
}

// holds checks that as many bytes came as there are.
func holds(f *os.File, size int64) error {
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = fmt.Errorf("%d of %d bytes came", info.Size(), size)
	}
	return err
}
