package env

import (
	"errors"
	"fmt"
	"path/filepath"

	"tare/internal/unit"
)

// CheckAbsolute is a Setting.Check that accepts absolute paths.
func CheckAbsolute(v string) error {
	if !filepath.IsAbs(v) {
		return fmt.Errorf("%q is not an absolute path", v)
	}
	return nil
}

// CheckMemory is a Setting.Check that accepts sizes of a file system in memory.
func CheckMemory(v string) error {
	n, err := unit.ParseSize(v)
	if err == nil && n < 1<<20 {
		err = fmt.Errorf("%q is less than 1MiB", v)
	}
	return err
}

// OneLine is the error of Info.Alone where a machine is reached by a line that takes one agent at a time.
func OneLine() error {
	return errors.New("it has one serial line, which only one controller can use")
}
