// Package fs measures file systems: records read and written in one file, and many small files through their whole
// life.
//
// It is opinionated. The data is incompressible and no page of it repeats, because zeros measure the compressor and not
// the disk. A random pass touches every record exactly once. If direct I/O is refused, the trial fails; it never falls
// back to buffered I/O. The data read and written is verified outside the timed section. On Linux the timed loop is one
// bare system call per operation, as in a C program: no scheduler, no allocation, no clock.
package fs

import (
	"fmt"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// Bounds of the parameters.
const (
	minRecord = 512
	maxRecord = 256 << 20
	maxFile   = 1 << 50
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	return []workload.Kind{seqWrite(), seqRead(), randRead(), randWrite(), mixed(), smallFiles()}
}

func smallFiles() workload.Kind {
	rate := func(name, doc string, primary bool) unit.Metric {
		return unit.Metric{Name: name, Unit: "files/s", Better: unit.Higher, Timed: true, Primary: primary,
			Doc: doc}
	}
	return workload.Kind{
		Name: "fs.smallfiles", Family: workload.FamilyFiles, WorkUnit: "file",
		Is: workload.Traits{Files: true, ManyFiles: true},
		Doc: "Handles many small files in five phases: create and write, stat, open and read, rename " +
			"within the directory, unlink. Each phase covers all files before the next one begins; one unit of " +
			"work is a file through all five. Contents are incompressible, and each read is checked.",
		Params: []workload.Param{
			{Name: "files", Type: workload.Int, Default: "1000", Min: 1, Max: 1_000_000,
				Doc: "files that exist at the same time"},
			{Name: "size", Type: workload.Size, Default: "4KiB", Min: 16, Max: 64 << 20, Doc: "bytes in " +
				"each file"},
			{Name: "dirs", Type: workload.Int, Default: "10", Min: 1, Max: 100_000,
				Doc: "directories over which the files are spread"},
			{Name: "fsync", Type: workload.Bool, Default: "no",
				Doc: "flush each file (fsync) after writing it, timed"},
		},
		Metrics: []unit.Metric{
			rate("files_per_second", "files per second through all five phases", true),
			rate("create_per_second", "files per second in that phase", false),
			rate("stat_per_second", "files per second in that phase", false),
			rate("read_per_second", "files per second in that phase", false),
			rate("rename_per_second", "files per second in that phase", false),
			rate("unlink_per_second", "files per second in that phase", false),
		},
		Needs: workload.Needs{FS: true, CPUBound: true}, // most of a buffered operation is the kernel's work
		New: func(p workload.Params) (workload.Trial, error) {
			s := &small{files: int(p.Int("files")), size: int(p.Int("size")), dirs: int(p.Int("dirs")),
				fsync: p.Bool("fsync")}
			if s.dirs > s.files {
				return nil, fmt.Errorf("fs.smallfiles: %d directories for %d files: dirs must not be larger than files",
					s.dirs, s.files)
			}
			return s, nil
		},
		Lasts: func(p workload.Params) workload.Lasting {
			return workload.Lasting{Flush: workload.EachIf(p.Bool("fsync")),
				Metrics: []string{"files_per_second", "create_per_second"}}
		},
		Space: func(p workload.Params) int64 { return smallSpace(p.Int("files"), p.Int("size"), p.Int("dirs")) },
	}
}

// smallSpace estimates the bytes that the small files need: whole 4 KiB blocks, plus a block of metadata for each file
// and directory, more than common file systems need.
func smallSpace(files, size, dirs int64) int64 {
	const block = 4096
	return files*((size+block-1)/block*block+block) + dirs*block + 1<<20
}
