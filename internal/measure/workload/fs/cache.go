package fs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/sysinfo"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// The states of the cache that timed reads begin with.
const (
	cacheWarm      = "warm"
	cacheAsIs      = "as-is"
	cacheGuestCold = "guest-cold"
	cacheCold      = "cold"
	cacheAttr      = "attr-expired"
)

// HostCold tells whether the host's cache of the environment's storage must be dropped before a trial with these
// parameters. The environment can neither do that nor check it.
func HostCold(p workload.Params) bool { return p["cache"] == cacheCold }

// reachCache brings the page cache into the requested state and checks that it was reached.
func (t *rw) reachCache(ctx context.Context, b *workload.Bench) error {
	if t.write && !t.mixed {
		return nil
	}
	switch t.cache {
	case cacheGuestCold, cacheCold:
		b.Note("cache", t.cache)
		if t.cache == cacheCold {
			b.Note("host_cache", "left to the controller")
		}
		return t.reachCold(ctx, b)
	case cacheAttr:
		b.Note("cache", t.cache)
		if err := t.warmUp(ctx); err != nil {
			return err
		}
		t.residency(b)
		return t.expire(ctx, b)
	case cacheWarm:
		if t.direct {
			return nil
		}
		for try := 1; ; try++ {
			if err := t.warmUp(ctx); err != nil {
				return err
			}
			if share, err := t.residency(b); err != nil || try == 4 || !t.cooled(share) {
				return t.judgeWarm(b, share, err)
			}
		}
	}
	if !t.direct {
		t.residency(b)
	}
	return nil
}

// residency records the share of all files that is in the page cache. The error is that of the last file for which the
// kernel does not report it.
func (t *rw) residency(b *workload.Bench) (share float64, err error) {
	for _, path := range t.files {
		s, e := fileio.Resident(path)
		if e != nil {
			err = e
		}
		share += s / float64(len(t.files))
	}
	if err != nil {
		b.Note("resident_before", "unknown")
		return 0, err
	}
	b.Note("resident_before", fmt.Sprintf("%.1f%%", 100*share))
	return share, nil
}

// rewarmed bounds the files that are read again, in bytes: larger ones probably do not fit the memory.
const rewarmed = 1 << 30

// cooled tells whether to read the files again because another program, by dropping caches or using memory, evicted
// part of what was just read. share is the part that is left. If nothing is left, reading again helps only if the file
// system keeps pages at all.
func (t *rw) cooled(share float64) bool {
	v, _ := fileio.Volume(t.files[0])
	return int64(len(t.files))*t.size() <= rewarmed && share < 0.99 && (share >= 0.01 || local[v.FS])
}

// judgeWarm checks that the files stayed in the page cache. A file system that keeps nothing, because it has no cache
// or its mount forbids it, is measured with a warning. A file that stayed in part is a failure, because the figure
// would mix two states.
func (t *rw) judgeWarm(b *workload.Bench, share float64, err error) error {
	if err != nil || share >= 0.99 {
		return nil
	}
	const remedy = "use a size that fits the memory of the environment, or cache=as-is to measure this state"
	what := fmt.Sprintf("only %.1f %% of the file's %s is in the page cache after the file was read", 100*share,
		sizeText(t.size()))
	if share < 0.01 {
		b.Warn("not-resident", what+
			": the reads are not warm; this mount may not use the page cache at all", remedy)
		return nil
	}
	return &record.Failure{Kind: "cache-state", Message: "reach cache=warm: " + what + "; " + remedy}
}

// reachCold drops the files from the page cache and checks that they are gone.
func (t *rw) reachCold(ctx context.Context, b *workload.Bench) error {
	if _, on := fileio.Volume(t.files[0]); on == "tmpfs" || on == "ramfs" {
		return &record.Failure{Kind: "cache-state",
			Message: fmt.Sprintf("reach cache=%s: %s keeps its files in the page cache, so they are never cold; use "+
				"cache=warm, or a work directory on a disk", t.cache, on)}
	}
	how := "posix_fadvise"
	var share float64
	for try := range 4 {
		if err := t.drop(); err != nil {
			return err
		}
		// A stacked or network file system keeps copies that posix_fadvise on its own files does not drop.
		if v, _ := fileio.Volume(t.files[0]); !local[v.FS] || try > 1 {
			if dropAll() == nil {
				how = "drop_caches"
			}
		}
		var err error
		if share, err = t.residency(b); err != nil {
			return &record.Failure{Kind: "cache-state",
				Message: fmt.Sprintf("reach cache=%s: the system does not report how much of %s is in its page "+
					"cache: %v; use cache=as-is", t.cache, t.files[0], err)}
		}
		if share == 0 {
			b.Note("cache_dropped_by", how)
			return nil
		}
		if err := sleep(ctx, 20*time.Millisecond<<try); err != nil {
			return err
		}
	}
	return &record.Failure{Kind: "cache-state",
		Message: fmt.Sprintf("reach cache=%s: %.2f %% of %s is still in the page cache after it was dropped (%s); %s",
			t.cache, 100*share, t.files[0], how,
			"make the agent root, use a work directory on a file system whose cache can be dropped, or use "+
				"cache=as-is")}
}

// local are the file systems whose pages posix_fadvise drops. tmpfs is not one of them: its pages are the file.
var local = map[string]bool{"ext4": true, "overlay": true, "xfs": true, "btrfs": true, "f2fs": true, "vfat": true,
	"exfat": true, "ntfs3": true}

// drop flushes the files and asks the kernel to drop their pages.
func (t *rw) drop() error {
	for _, path := range t.files {
		// a user's file may be on a read-only medium
		h, err := fileio.Open(path, fileio.Mode{Write: t.existing == ""})
		if err != nil {
			return err
		}
		err = h.Sync()
		if err == nil {
			err = h.DropCache()
		}
		err = errors.Join(err, h.Close())
		if errors.Is(err, fileio.ErrUnsupported) {
			return &record.Failure{Kind: "cache-state",
				Message: fmt.Sprintf("reach cache=%s: dropping the page cache is %v; use cache=as-is", t.cache, err)}
		}
		if err != nil {
			return fileio.Explain("drop from the cache", path, err)
		}
	}
	return nil
}

// warmUp reads the files once.
func (t *rw) warmUp(ctx context.Context) error {
	p := fileio.Aligned(max(t.bs, 1<<20))
	for _, path := range t.files {
		if err := warmOne(ctx, path, max(t.size(), t.length), p); err != nil {
			return err
		}
	}
	return nil
}

func warmOne(ctx context.Context, path string, size int64, p []byte) (err error) {
	h, err := fileio.Open(path, fileio.Mode{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := h.ReadAt(p, off)
		if err != nil {
			return fileio.Explain("read", path, err)
		}
		if n == 0 {
			return fmt.Errorf("read %s: it ends after %d bytes and should have %d bytes", path, off, size)
		}
		off += int64(n)
	}
	return nil
}

// expire waits until the cached attributes of a shared file have expired.
func (t *rw) expire(ctx context.Context, b *workload.Bench) error {
	_, kind, _, options, _ := sysinfo.MountAt(t.files[0])
	life, known := attributeLife(kind, options)
	wait := t.wait
	if wait == 0 {
		wait = life + life/10
	}
	if !known {
		if t.wait == 0 {
			wait = 3 * time.Second
		}
		b.Note("attribute_lifetime", "unknown")
		b.Warn("cache-unverified",
			fmt.Sprintf("the mount of %s (%s) does not report how long attributes are cached; the trial waited %v",
				b.Dir,
				kind, wait), "set attr_wait to the attribute lifetime of the server or the mount")
	} else {
		b.Note("attribute_lifetime", life.String())
	}
	if known && wait < life {
		return &record.Failure{Kind: "cache-state",
			Message: fmt.Sprintf("reach cache=attr-expired: attr_wait=%v is shorter than the attribute lifetime of "+
				"%v on %s; leave attr_wait out, or set a longer time", wait, life, kind)}
	}
	b.Note("attribute_wait", wait.String())
	return sleep(ctx, wait)
}

// attributeLife returns the longest time for which the client of a shared file system trusts attributes, by the mount's
// options: nfs(5) acregmax, 60 s by default; mount.cifs(8) actimeo, 1 s by default.
func attributeLife(kind, options string) (time.Duration, bool) {
	var names []string
	life := time.Duration(-1)
	switch kind {
	case "nfs", "nfs4":
		names, life = []string{"actimeo", "acregmax"}, time.Minute
	case "cifs", "smb3":
		names, life = []string{"actimeo", "acregmax"}, time.Second
	}
	for _, o := range strings.Split(options, ",") {
		name, value, _ := strings.Cut(o, "=")
		if name == "noac" {
			return 0, true
		}
		for _, n := range names {
			if s, err := strconv.ParseUint(value, 10, 31); err == nil && name == n {
				life = time.Duration(s) * time.Second
			}
		}
	}
	return max(life, 0), life >= 0
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
