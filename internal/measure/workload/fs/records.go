package fs

import (
	"strings"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/unit"
)

func seqWrite() workload.Kind {
	return recordKind("fs.seqwrite", "Writes a file from its beginning to its end, one record after the other "+
		"(fio: rw=write ioengine=psync).",
		profile{write: true}, "64KiB", []workload.Param{syncParam(), {
			Name: "create", Type: workload.Bool, Default: "yes",
			Doc: "yes: a new file in each trial, emptied before each pass, so that blocks are " +
				"allocated; no: overwrite in place"}})
}

func seqRead() workload.Kind {
	return recordKind("fs.seqread", "Reads a file from its beginning to its end, one record after the other (fio: "+
		"rw=read ioengine=psync invalidate=0).",
		profile{}, "64KiB", append(cacheParams(), fileParam()))
}

func randRead() workload.Kind {
	return recordKind("fs.randread", "Reads the records of a file in a random order from the seed, each exactly "+
		"once per pass (fio: rw=randread ioengine=psync invalidate=0).",
		profile{random: true}, "4KiB", append(cacheParams(), fileParam()))
}

func randWrite() workload.Kind {
	return recordKind("fs.randwrite", "Overwrites the records of an existing, fully allocated file in a random "+
		"order from the seed, each exactly once per pass (fio: rw=randwrite ioengine=psync overwrite=1).",
		profile{random: true, write: true}, "4KiB", []workload.Param{syncParam()})
}

func mixed() workload.Kind {
	params := append([]workload.Param{
		{Name: "read_percent", Type: workload.Int, Default: "70", Min: 1, Max: 99,
			Doc: "percentage of operations that read"},
		{Name: "pattern", Type: workload.Choice, Default: "random", Choices: []string{"random", "sequential"},
			Doc: "order of the records"},
		syncParam(),
	}, cacheParams()...)
	return recordKind("fs.mixed", "Reads and overwrites the records of an existing, fully allocated file, each "+
		"exactly once per pass (fio: rw=randrw rwmixread=read_percent ioengine=psync). The seed determines which "+
		"operations read, and which record each of them uses.",
		profile{random: true, write: true, mixed: true}, "4KiB", params)
}

func cacheParams() []workload.Param {
	return []workload.Param{
		{
			Name: "cache", Type: workload.Choice, Default: cacheWarm,
			Choices: []string{cacheWarm, cacheGuestCold, cacheCold, cacheAttr, cacheAsIs},
			Doc: "page cache before buffered reads, verified, else the trial fails: warm: the whole " +
				"file was read and stayed; guest-cold: the environment's has none of it; cold: nor has the host's, " +
				"for one pass a trial; attr-expired: read, then unused until a shared folder's cached attributes " +
				"have expired; as-is: no preparation",
		},
		{Name: "attr_wait", Type: workload.Duration, Default: "0s",
			Doc: "wait of cache=attr-expired; 0s: 1.1 times the attribute lifetime in the mount's " +
				"options, or 3 s without"},
	}
}

func syncParam() workload.Param {
	return workload.Param{
		Name: "fsync", Type: workload.Choice, Default: syncNone,
		Choices: []string{syncNone, syncEnd, syncEach, syncDataEnd, syncDataEach, syncFullEnd,
			syncFullEach},
		Doc: "timed flush: none; end: fsync after each pass and the last record; each: after every " +
			"record; datasync-end, datasync-each: by fdatasync; full-end, full-each: down to the medium, which on " +
			"macOS needs F_FULLFSYNC; with engine=mmap by msync"}
}

// recordKind makes the table row of a record workload. They differ in profile, default record size and parameters.
func recordKind(name, doc string, p profile, bs string, extra []workload.Param) workload.Kind {
	params := []workload.Param{
		{Name: "size", Type: workload.Size, Default: defaultSize, Min: minRecord, Max: maxFile,
			Doc: "size of the file"},
		{Name: "bs", Type: workload.Size, Default: bs, Min: minRecord, Max: maxRecord,
			Doc: "record size: bytes per operation"},
		{Name: "direct", Type: workload.Bool, Default: "no",
			Doc: "bypass the page cache (O_DIRECT, F_NOCACHE, FILE_FLAG_NO_BUFFERING); the trial " +
				"fails where that is impossible"},
		{Name: "data", Type: workload.Choice, Default: fileio.Random, Choices: []string{fileio.Random, fileio.Zero},
			Doc: "random: incompressible, no page repeated; zero: all zeros, which compressing and " +
				"thin storage does not store"},
		{Name: "threads", Type: workload.Int, Default: "1", Min: 1, Max: 256,
			Doc: "number of threads"},
		{Name: "files", Type: workload.Choice, Default: "shared", Choices: []string{"shared", "own"},
			Doc: "shared: threads divide the records of one file; own: each has a file of the full " +
				"size"},
		{
			Name: "engine", Type: workload.Choice, Default: enginePsync,
			Choices: []string{enginePsync, engineRing, engineMmap, engineAuto},
			Doc: "psync: one system call per operation; io_uring: qd operations in flight (Linux); " +
				"mmap: mapped memory; auto: io_uring for qd above 1 if the kernel allows it, else qd threads with " +
				"a warning",
		},
		{Name: "qd", Type: workload.Int, Default: "1", Min: 1, Max: 4096,
			Doc: "queue depth: operations in flight of each thread"},
		{Name: "pages", Type: workload.Choice, Default: string(fileio.OrdinaryPages), Choices: fileio.PagesChoices,
			Doc: fileio.PagesDoc},
		{Name: "latency", Type: workload.Bool, Default: "no",
			Doc: "report percentiles of the operations, for one clock reading each"},
	}
	metrics := []unit.Metric{
		{Name: "ops_per_second", Unit: "ops/s", Better: unit.Higher, Timed: true, Primary: p.random,
			Doc: "records per second (IOPS)"},
		{Name: "mib_per_second", Unit: "MiB/s", Better: unit.Higher, Timed: true, Primary: !p.random,
			Doc: "bytes read or written per second"},
	}
	return workload.Kind{
		Name: name, Family: workload.FamilyFiles, Is: p.traits(),
		Doc: doc, Params: append(params, extra...),
		WorkUnit: "operation",
		Needs:    workload.Needs{FS: true, CPUBound: true}, // most of a buffered operation is the kernel's work
		Metrics:  metrics,
		Dynamic: func(params workload.Params) []unit.Metric {
			if !params.Bool("latency") {
				return metrics
			}
			return append(metrics[:len(metrics):len(metrics)], latencyMetrics(p.mixed)...)
		},
		Lasts:      func(params workload.Params) workload.Lasting { return lasts(p, params) },
		New:        func(params workload.Params) (workload.Trial, error) { return newRW(p, params) },
		MaxWorkFor: workLimit,
		Space:      room,
		OnlyReads:  func(params workload.Params) bool { return params["file"] != "" },
		HostCold:   HostCold,
	}
}

// traits are those of a record workload. Figures of one that reads and writes are of neither.
func (p profile) traits() workload.Traits {
	is := workload.Traits{Files: true}
	if !p.mixed {
		is.Moves = &workload.Moves{Read: !p.write, Random: p.random, Device: true}
	}
	return is
}

// lasts declares what the record workloads make. Without a flush, too, it is so much that it ends on a medium.
func lasts(p profile, params workload.Params) workload.Lasting {
	l := workload.Lasting{Flush: workload.FlushLater, Metrics: workload.AllMetrics}
	switch {
	case !p.write:
		return workload.Lasting{}
	case strings.HasSuffix(params["fsync"], syncEach):
		l.Flush = workload.FlushEach
	case strings.HasSuffix(params["fsync"], syncEnd):
		l.Flush = workload.FlushAtEnd
	}
	return l
}

// quantiles are the figures of latency=yes. Split ones are also reported for reads and writes separately, if both are
// done.
var quantiles = []struct {
	name, doc string
	q         float64
	tail      bool
	split     bool
}{
	{"p50_us", "that percentile of an operation's time", 0.5, false, true},
	{"p90_us", "that percentile of an operation's time", 0.9, false, false},
	{"p99_us", "that percentile of an operation's time", 0.99, true, true},
	{"p999_us", "that percentile of an operation's time", 0.999, true, false},
	{"max_us", "longest time of an operation", 1, true, false},
}

func latencyMetrics(split bool) (ms []unit.Metric) {
	for _, q := range quantiles {
		add := func(prefix, which string) {
			ms = append(ms, unit.Metric{Name: prefix + q.name, Unit: "us", Better: unit.Lower, Timed: true,
				Tail: q.tail, Doc: q.doc + which + ", from a histogram of 128 steps per power of two"})
		}
		add("", "")
		if split && q.split {
			add("read_", ", reads only")
			add("write_", ", writes only")
		}
	}
	return ms
}
