//go:build !unix && !windows

package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// lockFile cannot keep a second writer out here, and two writers would destroy a bundle.
func lockFile(*os.File) error {
	return fmt.Errorf("lock the bundle: %w", errors.ErrUnsupported)
}

func syncDir(*os.Root) error { return nil }

func diskFull(error) bool { return false }

func readOnly(err error) bool { return errors.Is(err, fs.ErrPermission) }
