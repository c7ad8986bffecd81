package restore

import (
	"slices"
	"strings"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// Programs that decompress and load.
const (
	own         = "own"
	environment = "environment"
)

// Where the rows go.
const (
	loadNone       = "none"
	loadPostgreSQL = "postgresql"
)

// The states of the page cache in which a trial can find the backup's files.
const (
	cacheWarm = "warm"
	cacheCold = "cold"
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind { return []workload.Kind{kind()} }

func kind() workload.Kind {
	return workload.Kind{
		Name: "restore", Family: workload.FamilyFiles, WorkUnit: "restore", MaxWork: 1,
		Needs: workload.Needs{FS: true, CPUBound: true},
		Doc: "Restores a generated backup of a forum in stages: verify files by their MD5 digests, " +
			"unpack two tar.bz2 trees, merge a full SQL dump with two later streams by key, load the result into a " +
			"private PostgreSQL, and sync everything to stable storage. The backup is made once per session, " +
			"untimed; files, rows and checksums are compared afterwards.",
		Params: []workload.Param{
			{Name: "size", Type: workload.Size, Default: "16MiB", Min: 1 << 20, Max: 64 << 30,
				Doc: "unpacked size of the backup, half database, half files; a second per 2 MiB to " +
					"generate, once per session"},
			{Name: "load", Type: workload.Choice, Default: loadNone, Choices: []string{loadNone, loadPostgreSQL},
				Doc: "none: write and flush the merged dump, which needs no programs; postgresql: " +
					"load it into a server from the environment's own programs, started for the trial on a copy of " +
					"a data directory that initdb makes once per session"},
			{Name: "tools", Type: workload.Choice, Default: own, Choices: []string{own, environment},
				Doc: "own: tare decompresses and loads, the same everywhere; environment: its bzip2 " +
					"and psql do"},
			{Name: "threads", Type: workload.Int, Default: "0", Min: 0, Max: 64,
				Doc: "threads of tare's own decompression, 0 for one per processor"},
			{Name: "cache", Type: workload.Choice, Default: cacheWarm, Choices: []string{cacheWarm, cacheCold},
				Doc: "warm, or cold: the backup's pages are first dropped from the environment's page " +
					"cache, not from a host's below it"},
			{Name: "postgres", Type: workload.Text, Default: "",
				Doc: "folder of PostgreSQL's programs; empty: the newest in the usual folders"},
		},
		Metrics: metrics(true),
		Dynamic: func(p workload.Params) []unit.Metric { return metrics(p["load"] != loadNone) },
		Space:   func(p workload.Params) int64 { return space(p.Int("size"), p["load"] != loadNone) },
		// Half a minute per MiB: on an emulated processor a restore takes ten times as long.
		UnitTime: func(p workload.Params) time.Duration { return time.Duration(p.Int("size")>>20) * 30 * time.Second },
		Lasts:    lasts,
		New:      newTrial,
	}
}

// The stages, in order.
const (
	stageVerify = "verify"
	stageUnpack = "unpack"
	stageMerge  = "merge"
	stageLoad   = "load"
	stageSync   = "sync"
)

func metrics(load bool) []unit.Metric {
	all := []unit.Metric{{Name: "seconds", Unit: "s", Better: unit.Lower, Timed: true, Primary: true,
		Doc: "time of a whole restore"}}
	for _, stage := range []string{stageVerify, stageUnpack, stageMerge, stageLoad, stageSync} {
		if stage == stageLoad && !load {
			continue
		}
		all = append(all, unit.Metric{Name: stage + "_seconds", Unit: "s", Better: unit.Lower, Timed: true,
			Doc: "time of that stage"},
			unit.Metric{Name: stage + "_cpu_seconds", Unit: "s", Better: unit.Lower,
				Doc: "CPU time of that stage, of tare and the programs it started"})
		if stage != stageSync {
			all = append(all, unit.Metric{Name: stage + "_bytes_per_second", Unit: "B/s", Better: unit.Higher,
				Timed: true, Doc: "bytes of that stage per second: verify reads the compressed files, " +
					"unpack writes files, merge writes and load reads the merged dump"})
		}
		all = append(all, unit.Metric{Name: stage + "_io_per_second", Unit: "ops/s", Better: unit.Higher, Timed: true,
			Doc: "reads and writes per second that the disk completed in that stage, also those of " +
				"other programs"})
	}
	return slices.Clip(all)
}

// lasts names all figures but those of the stage that only reads. Whatever it loads, a restore ends with a flush.
func lasts(workload.Params) workload.Lasting {
	l := workload.Lasting{Flush: workload.FlushAtEnd}
	for _, m := range metrics(true) {
		if !strings.HasPrefix(m.Name, stageVerify) {
			l.Metrics = append(l.Metrics, m.Name)
		}
	}
	return l
}

// space estimates the bytes below the cell's directory: the backup twice, the unpacked and merged files, the server's
// data and log, and the session's cluster.
func space(size int64, load bool) int64 {
	n := 3*size + size/2 + 8<<20
	if load {
		n += 3*size + 256<<20 + clusterSpace
	}
	return n
}
