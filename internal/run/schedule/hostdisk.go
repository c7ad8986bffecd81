package schedule

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"tare/internal/lab/env"
)

// hostDisk returns the disk space that an environment's own files take, as its driver says, or else the files in the
// directory that was made for it; 0 if that is not known. Shared files, such as an image, do not count.
func hostDisk(ctx context.Context, opened env.Env, dir string) (bytes int64) {
	if d, ok := opened.(env.DiskUser); ok {
		n, err := d.DiskUsage(ctx)
		if err != nil {
			return 0
		}
		return n
	}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was removed meanwhile, or is mounted by others
		}
		if info, err := d.Info(); err == nil && info.Mode()&os.ModeType == 0 {
			bytes += allocated(info)
		}
		return ctx.Err()
	})
	if err != nil {
		return 0
	}
	return bytes
}
