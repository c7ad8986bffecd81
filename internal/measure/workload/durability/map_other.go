//go:build !unix

package durability

import (
	"errors"
	"fmt"
	"os"
)

func openDSync(string) (*os.File, error) {
	return nil, fmt.Errorf("open with O_DSYNC: %w", errors.ErrUnsupported)
}

func openMap(*os.File) (writer, error) {
	return nil, fmt.Errorf("map file: %w", errors.ErrUnsupported)
}
