package env

import (
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
