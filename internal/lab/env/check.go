package env

import (
	"fmt"
	"path/filepath"

	"tare/internal/unit"
)

// CheckAbsolute is the Check of a setting that is an absolute path.
func CheckAbsolute(v string) error {
	if !filepath.IsAbs(v) {
		return fmt.Errorf("%q is not an absolute path", v)
	}
	return nil
}

// CheckMemory is the Check of a setting that is the size of a file system in memory.
func CheckMemory(v string) error {
	n, err := unit.ParseSize(v)
	if err == nil && n < 1<<20 {
		err = fmt.Errorf("%q is less than 1MiB", v)
	}
	return err
}
