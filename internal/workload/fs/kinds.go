// Package fs weighs file systems: records read and written in one file, and many small files through their whole life.
//
// It is opinionated. The data is incompressible and no page of it repeats, because zeros measure the compressor and not
// the disk. A random pass touches every record exactly once. Direct I/O that is refused is a refusal, never a silent
// change to buffered I/O. What was read and written is verified outside the timed section. On Linux the timed loop is one
// bare system call per operation, as in a C program: no scheduler, no allocation, no clock.
package fs

import (
	"fmt"

	"tare/internal/unit"
	"tare/internal/workload"
	"tare/internal/workload/file"
)

// Bounds of the parameters.
const (
	minRecord = 512
	maxRecord = 256 << 20
	maxFile   = 1 << 50
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	return []workload.Kind{seqWrite(), seqRead(), randRead(), randWrite(), smallFiles()}
}

const common = " Data is incompressible, made from the run's seed, and verified outside the timed section. A file size that is no multiple of the record size is rounded down to one."

func seqWrite() workload.Kind {
	return rwKind("fs.seqwrite", "Writes a file from its beginning to its end, one record after the other. "+
		"With create=yes every trial writes a new file, so blocks are allocated, and each further pass over it begins by truncating it to nothing; with create=no an existing file is overwritten in place. "+
		"One operation is one pwrite of bs bytes (fio: rw=write ioengine=psync)."+common,
		profile{write: true}, "64KiB", writeParams(), workload.Param{
			Name: "create", Type: workload.Bool, Default: "yes", Doc: "a new file in each trial (blocks are allocated), or overwrite in place"})
}

func seqRead() workload.Kind {
	return rwKind("fs.seqread", "Reads a file from its beginning to its end, one record after the other. "+
		"One operation is one pread of bs bytes (fio: rw=read ioengine=psync invalidate=0)."+common,
		profile{}, "64KiB", readParams())
}

func randRead() workload.Kind {
	return rwKind("fs.randread", "Reads the records of a file in a random order that touches each exactly once per pass; the order is drawn from the seed and is the same in every target and pass. "+
		"One operation is one pread of bs bytes (fio: rw=randread ioengine=psync invalidate=0)."+common,
		profile{random: true}, "4KiB", readParams())
}

func randWrite() workload.Kind {
	return rwKind("fs.randwrite", "Overwrites the records of an existing, fully allocated file in a random order that touches each exactly once per pass; the order is drawn from the seed and is the same in every target and pass. "+
		"One operation is one pwrite of bs bytes (fio: rw=randwrite ioengine=psync overwrite=1)."+common,
		profile{random: true, write: true}, "4KiB", writeParams())
}

func readParams() []workload.Param {
	return []workload.Param{{
		Name: "cache", Type: workload.Choice, Default: "warm", Choices: []string{"warm", "as-is"},
		Doc: "warm: buffered reads begin with the whole file read once, and how much of it stayed in the page cache is recorded; as-is: the cache is left as it is found"}}
}

func writeParams() []workload.Param {
	return []workload.Param{{
		Name: "fsync", Type: workload.Choice, Default: syncNone, Choices: []string{syncNone, syncEnd, syncEach, syncDataEnd, syncDataEach},
		Doc: "flush inside the timed section: none; end: fsync after each pass over the file and after the last record; each: after every record; datasync-end, datasync-each: the same with fdatasync"}}
}

// rwKind makes the row of one of the four record workloads, which differ by profile, default record size and parameters.
func rwKind(name, doc string, p profile, bs string, extra ...any) workload.Kind {
	params := []workload.Param{
		{Name: "size", Type: workload.Size, Default: "64MiB", Min: minRecord, Max: maxFile, Doc: "size of the file"},
		{Name: "bs", Type: workload.Size, Default: bs, Min: minRecord, Max: maxRecord, Doc: "record size: bytes per operation"},
		{Name: "direct", Type: workload.Bool, Default: "no", Doc: "bypass the page cache (O_DIRECT, F_NOCACHE, FILE_FLAG_NO_BUFFERING); a file system that cannot is reported, not worked around"},
		{Name: "data", Type: workload.Choice, Default: file.Random, Choices: []string{file.Random, file.Zero}, Doc: "random: incompressible, no page repeated; zero: all zeros, which compressing and thin storage does not store"},
	}
	for _, e := range extra {
		switch e := e.(type) {
		case workload.Param:
			params = append(params, e)
		case []workload.Param:
			params = append(params, e...)
		}
	}
	return workload.Kind{
		Name: name, Family: "file system", Doc: doc, Params: params, WorkUnit: "operation",
		Needs: workload.Needs{FS: true, CPUBound: true}, // most of a buffered operation is the kernel's work
		Metrics: []unit.Metric{
			{Name: "ops_per_second", Unit: "ops/s", Better: unit.Higher, Timed: true, Primary: p.random, Doc: "records per second; one operation is one system call for bs bytes"},
			{Name: "mib_per_second", Unit: "MiB/s", Better: unit.Higher, Timed: true, Primary: !p.random, Doc: "bytes read or written per second, in units of 1,048,576"},
		},
		New:   func(params workload.Params) (workload.Trial, error) { return newRW(p, params) },
		Space: func(params workload.Params) int64 { return params.Int("size") + 1<<20 },
	}
}

func smallFiles() workload.Kind {
	rate := func(name, doc string, primary bool) unit.Metric {
		return unit.Metric{Name: name, Unit: "files/s", Better: unit.Higher, Timed: true, Primary: primary, Doc: doc}
	}
	return workload.Kind{
		Name: "fs.smallfiles", Family: "file system", WorkUnit: "file",
		Doc: "Takes many small files through their life in five phases, each over the whole set before the next begins: create and write, stat, open and read, rename within the directory, unlink. " +
			"One unit of work is one file through all five phases; more work than files means more rounds of equal size. Names are precomputed and relative to an open directory, contents are incompressible and each read is checked.",
		Params: []workload.Param{
			{Name: "files", Type: workload.Int, Default: "1000", Min: 1, Max: 1_000_000, Doc: "files that exist at the same time"},
			{Name: "size", Type: workload.Size, Default: "4KiB", Min: 16, Max: 64 << 20, Doc: "bytes in each file"},
			{Name: "dirs", Type: workload.Int, Default: "10", Min: 1, Max: 100_000, Doc: "directories the files are spread over"},
			{Name: "fsync", Type: workload.Bool, Default: "no", Doc: "fsync each file after it was written, inside the timed section"},
		},
		Metrics: []unit.Metric{
			rate("files_per_second", "files taken through all five phases per second", true),
			rate("create_per_second", "files created, written and closed per second", false),
			rate("stat_per_second", "files looked up by name per second", false),
			rate("read_per_second", "files opened, read and closed per second", false),
			rate("rename_per_second", "files renamed within their directory per second", false),
			rate("unlink_per_second", "files removed per second", false),
		},
		Needs: workload.Needs{FS: true, CPUBound: true}, // most of a buffered operation is the kernel's work
		New: func(p workload.Params) (workload.Trial, error) {
			s := &small{files: int(p.Int("files")), size: int(p.Int("size")), dirs: int(p.Int("dirs")), fsync: p.Bool("fsync")}
			if s.dirs > s.files {
				return nil, fmt.Errorf("fs.smallfiles: %d directories for %d files: give dirs a value of at most files", s.dirs, s.files)
			}
			return s, nil
		},
		Space: func(p workload.Params) int64 { return smallSpace(p.Int("files"), p.Int("size"), p.Int("dirs")) },
	}
}

// smallSpace estimates the bytes that the small files take: whole 4 KiB blocks, plus a block of metadata for each file
// and directory, which is generous on the file systems people use.
func smallSpace(files, size, dirs int64) int64 {
	const block = 4096
	return files*((size+block-1)/block*block+block) + dirs*block + 1<<20
}
