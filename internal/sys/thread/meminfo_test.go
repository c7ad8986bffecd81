package thread

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/fstest"
)

const meminfo = "MemTotal:       24683324 kB\nMemFree:          100000 kB\nMemAvailable:    1048576 kB\n"

// tree makes a file tree of names and texts.
func tree(files map[string]string) fstest.MapFS {
	fs := fstest.MapFS{"proc/meminfo": {Data: []byte(meminfo)}}
	for name, text := range files {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fs
}

func TestAvailable(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
		limit string
	}{
		"no cgroups": {nil, 1024 * mib, "the system"},
		"no limit": {map[string]string{
			"proc/self/cgroup": "0::/user.slice/x\n", "sys/fs/cgroup/user.slice/x/memory.max": "max\n",
			"sys/fs/cgroup/user.slice/x/memory.current": "1000\n",
		}, 1024 * mib, "the system"},
		"parent is the tighter": {map[string]string{
			"proc/self/cgroup":                   "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max":         "104857600\n", // 100 MiB
			"sys/fs/cgroup/a/memory.current":     "94371840\n",  // 90 MiB
			"sys/fs/cgroup/a/memory.stat":        "anon 1\nactive_file 10485760\ninactive_file 20971520\n",
			"sys/fs/cgroup/a/b/memory.max":       "209715200\n",
			"sys/fs/cgroup/a/b/memory.current":   "0\n",
			"sys/fs/cgroup/unrelated/memory.max": "1\n",
		}, 40 * mib, "cgroup /sys/fs/cgroup/a"},
		"container with its own root": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "52428800\n",
			"sys/fs/cgroup/memory.current": "0\n",
		}, 50 * mib, "cgroup /sys/fs/cgroup"},
		"version 1, path of the host": {map[string]string{
			"proc/self/cgroup":                           "5:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "52428800\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "10485760\n",
		}, 40 * mib, "cgroup /sys/fs/cgroup/memory"},
		"version 1, unlimited": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "0\n",
		}, 1024 * mib, "the system"},
		"over its limit": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1048576\n",
			"sys/fs/cgroup/memory.current": "2097152\n",
		}, -1 * mib, "cgroup /sys/fs/cgroup"},
	} {
		got, err := availableIn(tree(c.files))
		if err != nil || got.Bytes != c.want || got.Limit != c.limit {
			t.Errorf("%s: %+v, %v; want %d by %s", name, got, err, c.want, c.limit)
		}
	}
}

func TestAvailableWithoutFigures(t *testing.T) {
	if m, err := availableIn(fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: 1 kB\n")}}); err == nil {
		t.Errorf("a meminfo with no figure gave %+v", m)
	}
	if m, err := availableIn(fstest.MapFS{}); err == nil {
		t.Errorf("no /proc gave %+v", m)
	}
	m, err := availableIn(fstest.MapFS{"proc/meminfo": {Data: []byte("MemFree: 2048 kB\n")}})
	if err != nil || m.Bytes != 2<<20 {
		t.Errorf("a kernel that knows only MemFree gave %+v, %v", m, err)
	}
}

func TestCheckMemory(t *testing.T) {
	if err := CheckMemory(1 << 20); err != nil {
		t.Errorf("1 MiB: %v", err)
	}
	if _, err := Available(); errors.Is(err, ErrUnsupported) {
		t.Skipf("the platform does not tell: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	err := CheckMemory(math.MaxInt64)
	if err == nil || !strings.Contains(err.Error(), "use a smaller size") {
		t.Errorf("8 EiB: %v, want a refusal that says what to do", err)
	}
}

func FuzzAvailable(f *testing.F) {
	f.Add(meminfo, "0::/a/b\n", "100\n", "50\n", "active_file 7\n")
	f.Add("MemFree: 1 kB", "4:memory:/../../x\n0::relative\n:::", "max", "-1",
		"active_file 9223372036854775807\ninactive_file 9223372036854775807\n")
	f.Fuzz(func(t *testing.T, info, groups, limit, usage, stat string) {
		if len(info)+len(groups)+len(limit)+len(usage)+len(stat) > 64<<10 {
			return
		}
		m, err := availableIn(tree(map[string]string{
			"proc/meminfo": info, "proc/self/cgroup": groups,
			"sys/fs/cgroup/memory.max": limit, "sys/fs/cgroup/memory.current": usage, "sys/fs/cgroup/memory.stat": stat,
			"sys/fs/cgroup/memory/memory.limit_in_bytes": limit, "sys/fs/cgroup/memory/memory.usage_in_bytes": usage,
		}))
		if err == nil && m.Limit == "" {
			t.Errorf("%+v without saying what limits", m)
		}
	})
}
