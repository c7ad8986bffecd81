package thread

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// Bounds of one file below /proc or /sys, and of the path of a cgroup (PATH_MAX). A process is in one group of each
// hierarchy, and there are about a dozen hierarchies at most.
const (
	maxProcFile  = 1 << 20
	maxGroupPath = 4096
	maxGroups    = 64
)

// availableIn works on a file tree that holds proc/meminfo, proc/self/cgroup and sys/fs/cgroup.
func availableIn(root fs.FS) (Memory, error) {
	info, err := readSmall(root, "proc/meminfo")
	if err != nil {
		return Memory{}, err
	}
	free, err := memAvailable(info)
	if err != nil {
		return Memory{}, err
	}
	m := Memory{Bytes: free, Limit: "the system"}
	groups, err := readSmall(root, "proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return Memory{}, err
	}
	for _, g := range memoryGroups(groups) {
		// A group's path is relative to its namespace and may name levels that are not mounted here: those are skipped,
		// the ones above still count.
		for dir := g.path; ; dir = path.Dir(dir) {
			at := path.Join(g.mount, dir)
			if left, ok := groupLeft(root, at, g.files); ok && left < m.Bytes {
				m = Memory{Bytes: left, Limit: "cgroup /" + at}
			}
			if dir == "/" || dir == "." {
				break
			}
		}
	}
	return m, nil
}

// memAvailable reads MemAvailable of /proc/meminfo, or MemFree if a sandbox's kernel does not have it; in bytes.
func memAvailable(info []byte) (int64, error) {
	free, found := uint64(0), false
	for line := range bytes.Lines(info) {
		if v, ok := kilobytes(line, "MemAvailable:"); ok {
			return int64(v), nil
		}
		if v, ok := kilobytes(line, "MemFree:"); ok {
			free, found = v, true
		}
	}
	if !found {
		return 0, errors.New("read /proc/meminfo: it has neither MemAvailable nor MemFree")
	}
	return int64(free), nil
}

// groupFiles names the files of one cgroup version.
type groupFiles struct{ limit, usage string }

var (
	filesV1 = groupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes"}
	filesV2 = groupFiles{"memory.max", "memory.current"}
)

type memoryGroup struct {
	mount, path string
	files       groupFiles
}

// memoryGroups reads /proc/self/cgroup: lines of "id:controllers:path", id 0 with no controllers being version 2.
func memoryGroups(text []byte) []memoryGroup {
	var groups []memoryGroup
	for line := range strings.Lines(string(text)) {
		part := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(part) != 3 || !strings.HasPrefix(part[2], "/") || len(part[2]) > maxGroupPath {
			continue
		}
		if len(groups) == maxGroups {
			break
		}
		// Clean, so that a path with ".." (a process moved out of its namespace's root) stays below the mount.
		p := path.Clean(part[2])
		if part[0] == "0" && part[1] == "" {
			groups = append(groups, memoryGroup{"sys/fs/cgroup", p, filesV2})
		} else if strings.Contains(","+part[1]+",", ",memory,") {
			groups = append(groups, memoryGroup{"sys/fs/cgroup/memory", p, filesV1})
		}
	}
	return groups
}

// groupLeft returns the memory that a group still allows: its limit minus its usage, without the file cache, which the
// kernel reclaims first. ok is false if there is no such group or it has no limit.
func groupLeft(root fs.FS, dir string, files groupFiles) (left int64, ok bool) {
	limit, ok := readCount(root, path.Join(dir, files.limit))
	if !ok {
		return 0, false
	}
	usage, ok := readCount(root, path.Join(dir, files.usage))
	if !ok {
		return 0, false
	}
	cache := int64(0)
	if stat, err := readSmall(root, path.Join(dir, "memory.stat")); err == nil {
		cache = fileCache(stat)
	}
	return limit - max(0, usage-cache), true
}

// fileCache adds active_file and inactive_file of a memory.stat file, in bytes.
func fileCache(stat []byte) int64 {
	total := int64(0)
	for line := range strings.Lines(string(stat)) {
		f := strings.Fields(line)
		if len(f) == 2 && (f[0] == "active_file" || f[0] == "inactive_file") {
			if v, err := strconv.ParseInt(f[1], 10, 64); err == nil && v >= 0 && v <= math.MaxInt64-total {
				total += v
			}
		}
	}
	return total
}

// readCount reads a file with one number of bytes; "max" and any other text count as absent.
func readCount(root fs.FS, name string) (int64, bool) {
	text, err := readSmall(root, name)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return v, err == nil && v >= 0
}

func readSmall(root fs.FS, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read /%s: %w", name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProcFile))
	if err != nil {
		return nil, fmt.Errorf("read /%s: %w", name, err)
	}
	return b, nil
}
