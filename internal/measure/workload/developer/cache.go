package developer

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// The states of the caches of directory entries and inodes that a trial can ask for.
const (
	cacheWarm = "warm"
	cacheCold = "cold"
)

func cacheParam() workload.Param {
	return workload.Param{
		Name: "cache", Type: workload.Choice, Default: cacheWarm, Choices: []string{cacheWarm, cacheCold},
		Doc: "warm: everything was just looked up; cold: the environment's own caches, not those of a " +
			"host or server below, are dropped before each trial, which needs root"}
}

// bring sets the state of the caches. Everything below the folder is looked up once; for cold, the caches are then
// dropped, and the number of freed directory entries is the evidence.
func bring(ctx context.Context, b *workload.Bench, dir, cache string) error {
	entries := int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			entries++
			_, err = d.Info()
		}
		return err
	})
	if err != nil {
		return fileio.Explain("look below", dir, err)
	}
	if cache != cacheCold {
		return nil
	}
	if err := settle(dir); err != nil {
		return fileio.Explain("flush", dir, err)
	}
	before, err := cachedEntries()
	if err == nil {
		err = dropCaches()
	}
	if err != nil {
		return &record.Failure{Kind: "refused",
			Message: fmt.Sprintf("drop the caches: %v; use cache=warm, or an environment in which the agent is root "+
				"and can write /proc/sys/vm/drop_caches", err)}
	}
	after, err := cachedEntries()
	if err != nil {
		return fmt.Errorf("count the cached directory entries: %w", err)
	}
	b.Note("entries_dropped", strconv.FormatInt(before-after, 10))
	if before-after < entries/2 {
		b.Warn("not-cold", fmt.Sprintf("dropping the caches freed %d directory entries, but the work has %d: this "+
			"file system does not cache them, or kept them", before-after, entries),
			"compare with cache=warm: if both cost the same, nothing was cached")
	}
	return nil
}
