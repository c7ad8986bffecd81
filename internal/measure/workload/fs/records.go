package fs

import (
	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/unit"
)

const common = " Data is incompressible, made from the run's seed, and verified outside the timed section. A file " +
	"size that is no multiple of the record size is rounded down to one. " +
	"With several threads each has a range of the file for itself, or with files=own a file; all pass a barrier " +
	"first, and the rate is that of all until the last is done."

func seqWrite() workload.Kind {
	return recordKind("fs.seqwrite", "Writes a file from its beginning to its end, one record after the other. "+
		"With create=yes every trial writes a new file, so blocks are allocated, and each further pass over it "+
		"begins by truncating it to nothing; with create=no an existing file is overwritten in place. "+
		"One operation is one pwrite of bs bytes (fio: rw=write ioengine=psync)."+common,
		profile{write: true}, "64KiB", []workload.Param{syncParam(), {
			Name: "create", Type: workload.Bool, Default: "yes",
			Doc: "a new file in each trial (blocks are allocated), or overwrite in place"}})
}

func seqRead() workload.Kind {
	return recordKind("fs.seqread", "Reads a file from its beginning to its end, one record after the other. "+
		"One operation is one pread of bs bytes (fio: rw=read ioengine=psync invalidate=0)."+common,
		profile{}, "64KiB", append(cacheParams(), fileParam()))
}

func randRead() workload.Kind {
	return recordKind("fs.randread", "Reads the records of a file in a random order that touches each exactly once "+
		"per pass; each pass has an order of its own, drawn from the seed and the same in every target. "+
		"One operation is one pread of bs bytes (fio: rw=randread ioengine=psync invalidate=0)."+common,
		profile{random: true}, "4KiB", append(cacheParams(), fileParam()))
}

func randWrite() workload.Kind {
	return recordKind("fs.randwrite", "Overwrites the records of an existing, fully allocated file in a random "+
		"order that touches each exactly once per pass; each pass has an order of its own, drawn from the seed and "+
		"the same in every target. "+
		"One operation is one pwrite of bs bytes (fio: rw=randwrite ioengine=psync overwrite=1)."+common,
		profile{random: true, write: true}, "4KiB", []workload.Param{syncParam()})
}

func mixed() workload.Kind {
	params := append([]workload.Param{
		{Name: "read_percent", Type: workload.Int, Default: "70", Min: 1, Max: 99,
			Doc: "how many of a hundred operations read; the others write"},
		{Name: "pattern", Type: workload.Choice, Default: "random", Choices: []string{"random", "sequential"},
			Doc: "the order of the records"},
		syncParam(),
	}, cacheParams()...)
	return recordKind("fs.mixed", "Reads and overwrites the records of an existing, fully allocated file. Which "+
		"operation reads and which record it touches is drawn from the seed and is the same in every target; each "+
		"record is touched exactly once per pass. "+
		"One operation is one pread or pwrite of bs bytes (fio: rw=randrw rwmixread=read_percent ioengine=psync)."+
		common,
		profile{random: true, write: true, mixed: true}, "4KiB", params)
}

func cacheParams() []workload.Param {
	return []workload.Param{
		{
			Name: "cache", Type: workload.Choice, Default: cacheWarm,
			Choices: []string{cacheWarm, cacheGuestCold, cacheCold, cacheAttr, cacheAsIs},
			Doc: "what buffered reads begin with, looked at and not assumed: warm: the whole file was read once and " +
				"stayed in the page cache; guest-cold: nothing of it is in the environment's page cache; cold: nor " +
				"in the host's; " +
				"attr-expired: read once, then left until a shared folder's attributes are too old to be trusted; " +
				"as-is: as it is found. A cold trial does one pass at most. A state that is not reached fails the " +
				"trial",
		},
		{Name: "attr_wait", Type: workload.Duration, Default: "0s",
			Doc: "how long cache=attr-expired waits; 0s: 1.1 times the lifetime that the mount's options set, or 3 " +
				"s where they set none"},
	}
}

func syncParam() workload.Param {
	return workload.Param{
		Name: "fsync", Type: workload.Choice, Default: syncNone,
		Choices: []string{syncNone, syncEnd, syncEach, syncDataEnd, syncDataEach},
		Doc: "flush inside the timed section: none; end: fsync after each pass over the file and after the last " +
			"record; each: after every record; datasync-end, datasync-each: the same with fdatasync; engine=mmap " +
			"uses msync"}
}

// recordKind makes the row of one of the record workloads, which differ by profile, default record size and parameters.
func recordKind(name, doc string, p profile, bs string, extra []workload.Param) workload.Kind {
	params := []workload.Param{
		{Name: "size", Type: workload.Size, Default: defaultSize, Min: minRecord, Max: maxFile,
			Doc: "size of the file"},
		{Name: "bs", Type: workload.Size, Default: bs, Min: minRecord, Max: maxRecord,
			Doc: "record size: bytes per operation"},
		{Name: "direct", Type: workload.Bool, Default: "no",
			Doc: "bypass the page cache (O_DIRECT, F_NOCACHE, FILE_FLAG_NO_BUFFERING); a file system that cannot is " +
				"reported, not worked around"},
		{Name: "data", Type: workload.Choice, Default: fileio.Random, Choices: []string{fileio.Random, fileio.Zero},
			Doc: "random: incompressible, no page repeated; zero: all zeros, which compressing and thin storage " +
				"does not store"},
		{Name: "threads", Type: workload.Int, Default: "1", Min: 1, Max: 256,
			Doc: "threads that work at the same time"},
		{Name: "files", Type: workload.Choice, Default: "shared", Choices: []string{"shared", "own"},
			Doc: "shared: the threads divide the records of one file; own: each has a file of the full size"},
		{
			Name: "engine", Type: workload.Choice, Default: enginePsync,
			Choices: []string{enginePsync, engineRing, engineMmap, engineAuto},
			Doc: "psync: one system call per operation; io_uring: Linux's rings, with qd operations in flight; " +
				"mmap: copies to and from mapped memory; auto: io_uring where qd is above 1 and the kernel allows " +
				"it, else qd threads, which is said",
		},
		{Name: "qd", Type: workload.Int, Default: "1", Min: 1, Max: 4096,
			Doc: "queue depth: operations that each thread keeps in flight"},
		{Name: "pages", Type: workload.Choice, Default: string(fileio.OrdinaryPages), Choices: fileio.PagesChoices,
			Doc: fileio.PagesDoc},
		{Name: "latency", Type: workload.Bool, Default: "no",
			Doc: "time every operation and report percentiles; costs one reading of the clock per operation"},
	}
	metrics := []unit.Metric{
		{Name: "ops_per_second", Unit: "ops/s", Better: unit.Higher, Timed: true, Primary: p.random,
			Doc: "records per second (IOPS); one operation moves bs bytes"},
		{Name: "mib_per_second", Unit: "MiB/s", Better: unit.Higher, Timed: true, Primary: !p.random,
			Doc: "bytes read or written per second, in units of 1,048,576"},
	}
	return workload.Kind{
		Name: name, Family: "file system", Doc: doc, Params: append(params, extra...), WorkUnit: "operation",
		Needs:   workload.Needs{FS: true, CPUBound: true}, // most of a buffered operation is the kernel's work
		Metrics: metrics,
		Dynamic: func(params workload.Params) []unit.Metric {
			if !params.Bool("latency") {
				return metrics
			}
			return append(metrics[:len(metrics):len(metrics)], latencyMetrics(p.mixed)...)
		},
		New:        func(params workload.Params) (workload.Trial, error) { return newRW(p, params) },
		MaxWorkFor: workLimit,
		Space:      room,
		OnlyReads:  func(params workload.Params) bool { return params["file"] != "" },
		HostCold:   HostCold,
	}
}

// quantiles are what latency=yes reports. Split ones are told of reads and of writes, too, where both are done.
var quantiles = []struct {
	name, doc string
	q         float64
	tail      bool
	split     bool
}{
	{"p50_us", "median time of an operation", 0.5, false, true},
	{"p90_us", "90th percentile of an operation's time", 0.9, false, false},
	{"p99_us", "99th percentile of an operation's time", 0.99, true, true},
	{"p999_us", "99.9th percentile of an operation's time", 0.999, true, false},
	{"max_us", "the longest operation", 1, true, false},
}

func latencyMetrics(split bool) (ms []unit.Metric) {
	for _, q := range quantiles {
		add := func(prefix, which string) {
			ms = append(ms, unit.Metric{Name: prefix + q.name, Unit: "us", Better: unit.Lower, Timed: true,
				Tail: q.tail, Doc: q.doc + which + ", from a histogram of 128 steps per power of two"})
		}
		add("", "")
		if split && q.split {
			add("read_", ", reads alone")
			add("write_", ", writes alone")
		}
	}
	return ms
}
