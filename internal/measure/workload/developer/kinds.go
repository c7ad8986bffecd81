package developer

import (
	"fmt"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

const family = "file system"

// needs of all kinds but dev.build: most of a cached operation is the kernel's work.
var needs = workload.Needs{FS: true, CPUBound: true}

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	return []workload.Kind{walkKind(), statusKind(), probeKind(), unpackKind(), removeKind(), editKind(), journalKind(),
		compileKind(), buildKind()}
}

func rate(name, unitName, doc string, primary bool) unit.Metric {
	return unit.Metric{Name: name, Unit: unitName, Better: unit.Higher, Timed: true, Primary: primary, Doc: doc}
}

func latency(name, doc string, primary, tail bool) unit.Metric {
	return unit.Metric{Name: name, Unit: "ns", Better: unit.Lower, Timed: true, Primary: primary, Tail: tail, Doc: doc}
}

func filesParam(def, doc string) workload.Param {
	return workload.Param{Name: "files", Type: workload.Int, Default: def, Min: 1, Max: 1_000_000,
		Doc: doc + "; rounded up to whole modules of 64 files in 7 directories"}
}

// whenCold bounds the work of a trial to one look at everything, because the second look would find it cached.
func whenCold(most func(workload.Params) int64) func(workload.Params) int64 {
	return func(p workload.Params) int64 {
		if p["cache"] == cacheCold {
			return most(p)
		}
		return 0
	}
}

func modules(p workload.Params) int64 { return int64(modulesFor(p.Int("files"))) }

func space(p workload.Params) int64 { return treeSpace(modulesFor(p.Int("files"))) }

func walkKind() workload.Kind {
	return workload.Kind{
		Name: "dev.walk", Family: family, WorkUnit: "module", Needs: needs,
		Doc: "Walks a source tree as find does: each directory is opened and listed to its end, then those in it; " +
			"an entry is looked up only where the listing does not tell its type, and how many needed that is " +
			"recorded. " +
			"One unit is one module, 64 files in 7 directories; all are walked in turn. The tree is generated, in " +
			"the shape of Go's own.",
		Params: []workload.Param{filesParam("4096", "files in the tree"), cacheParam()},
		Metrics: []unit.Metric{rate("entries_per_second", "entries/s", "files and directories seen per second",
			true), rate("directories_per_second", "dirs/s", "directories listed per second", false)},
		MaxWorkFor: whenCold(modules), Space: space,
		New: func(p workload.Params) (workload.Trial, error) {
			return &walk{modules: int(modules(p)), cache: p["cache"]}, nil
		},
	}
}

func statusKind() workload.Kind {
	return workload.Kind{
		Name: "dev.status", Family: family, WorkUnit: "path", Needs: needs,
		Doc: "Asks for the status of every file of a source tree as git status does: lstat of each path of a sorted " +
			"index, from the top of the tree, and a comparison of size, time of modification and inode. " +
			"One unit is one path; after the last it begins again.",
		Params:     []workload.Param{filesParam("4096", "files in the tree"), cacheParam()},
		Metrics:    []unit.Metric{rate("paths_per_second", "paths/s", "paths asked for per second", true)},
		MaxWorkFor: whenCold(func(p workload.Params) int64 { return modules(p) * moduleFiles }), Space: space,
		New: func(p workload.Params) (workload.Trial, error) {
			return &lookOver{modules: int(modules(p)), cache: p["cache"]}, nil
		},
	}
}

func probeKind() workload.Kind {
	packages := func(p workload.Params) int64 { return p.Int("packages") }
	return workload.Kind{
		Name: "dev.probe", Family: family, WorkUnit: "resolution", Needs: needs,
		Doc: "Looks for modules where most of them are not, as Node.js and bundlers do: one unit resolves and loads " +
			"one package from the top folder's node_modules and one file beside the importing one. " +
			"With the defaults that is 17 lookups of which 10 find nothing, in the order Node.js 20 makes them; " +
			"more candidates stand for TypeScript and bundlers.",
		Params: []workload.Param{
			{Name: "packages", Type: workload.Int, Default: "512", Min: 1, Max: 100_000,
				Doc: "packages, and as many importing files"},
			{Name: "depth", Type: workload.Int, Default: "5", Min: 1, Max: 32,
				Doc: "folders between the top and the importing file, each looked into on the way up"},
			{Name: "candidates", Type: workload.Int, Default: "3", Min: 0, Max: 64,
				Doc: "extensions that are tried in vain for a package"},
			cacheParam(),
		},
		Metrics: []unit.Metric{
			rate("resolutions_per_second", "ops/s", "packages with a file beside them, resolved and loaded, per second",
				true),
			rate("lookups_per_second", "lookups/s", "names looked up per second, found or not", false),
		},
		MaxWorkFor: whenCold(packages),
		Space:      func(p workload.Params) int64 { return p.Int("packages")*5*4096 + 1<<20 },
		New: func(p workload.Params) (workload.Trial, error) {
			return &probe{packages: int(p.Int("packages")), depth: int(p.Int("depth")),
				candidates: int(p.Int("candidates")), cache: p["cache"]}, nil
		},
	}
}

func unpackKind() workload.Kind {
	return workload.Kind{
		Name: "dev.unpack", Family: family, WorkUnit: "module", Needs: needs, MaxWorkFor: modules,
		Doc: "Unpacks a source tree from a generated archive in memory as tar does: make directories; create each " +
			"file, write it in pieces of up to 10 KiB, set its time and permissions, close it; set the directories' " +
			"times. " +
			"One unit is one module, 64 files in 7 directories with sizes distributed as in Go's own tree (median " +
			"1.8 KB, 564 KB in all). A trial does at most all of the tree.",
		Params: []workload.Param{filesParam("30000", "files in the whole tree")},
		Metrics: []unit.Metric{
			rate("files_per_second", "files/s", "files unpacked per second, with their share of directories", true),
			rate("mib_per_second", "MiB/s", "bytes of content unpacked per second, in units of 1,048,576", false),
		},
		Space: space,
		New:   func(workload.Params) (workload.Trial, error) { return &unpack{}, nil },
	}
}

func removeKind() workload.Kind {
	return workload.Kind{
		Name: "dev.remove", Family: family, WorkUnit: "module", Needs: needs, MaxWorkFor: modules,
		Doc: "Removes a source tree as rm -rf does: each directory is listed to its end, what is in it is removed, " +
			"directories after what they hold. " +
			"One unit is one module, 64 files in 7 directories, unpacked before the clock starts. A trial does at " +
			"most all of the tree.",
		Params: []workload.Param{filesParam("30000", "files in the whole tree")},
		Metrics: []unit.Metric{rate("files_per_second", "files/s",
			"files removed per second, with their share of directories", true)},
		Space: space,
		New:   func(workload.Params) (workload.Trial, error) { return &removal{}, nil },
	}
}

func editKind() workload.Kind {
	return workload.Kind{
		Name: "dev.edit", Family: family, WorkUnit: "edit", Needs: needs,
		Doc: "Saves one of 64 files, has those who depend on it look at its status, and reads it back. One unit is " +
			"one such edit. " +
			"Content that is old when it is read back is a failure; a size that is old when it is looked at gives a " +
			"warning.",
		Params: []workload.Param{
			{Name: "how", Type: workload.Choice, Default: saveRename, Choices: []string{saveRename, saveInplace},
				Doc: "rename: write a new file and rename it over the old one; inplace: empty the file and write it"},
			{Name: "size", Type: workload.Size, Default: "4KiB", Min: 16, Max: 64 << 20,
				Doc: "bytes of a file, up to 15 more from edit to edit"},
			{Name: "dependants", Type: workload.Int, Default: "16", Min: 0, Max: 100_000,
				Doc: "how often the status is asked for after each save"},
			{Name: "fsync", Type: workload.Bool, Default: "no", Doc: "flush before the file is closed"},
		},
		Metrics: []unit.Metric{
			latency("edit_ns", "mean time from one edit to the next: save, looks of all dependants, read back", true,
				false),
			latency("edit_p50_ns", "median of the same", false, false),
			latency("edit_p99_ns", "99th percentile of the same", false, true),
		},
		Space: func(p workload.Params) int64 { return editedFiles*2*(p.Int("size")+8192) + 1<<20 },
		New: func(p workload.Params) (workload.Trial, error) {
			return &edit{how: p["how"], size: int(p.Int("size")), dependants: int(p.Int("dependants")),
				fsync: p.Bool("fsync")}, nil
		},
	}
}

func journalKind() workload.Kind {
	return workload.Kind{
		Name: "dev.journal", Family: family, WorkUnit: "commit", Needs: needs,
		Doc: "Commits small transactions as an embedded database does; one unit is one commit of one row with an " +
			"index, in the order of system calls that SQLite 3.40 makes at synchronous=FULL, with its locks. " +
			"delete and truncate: the old pages go to a rollback journal (3 flushes of files and 1 of the " +
			"directory; truncate: one more). wal: the new pages go to a log (1 flush), and a checkpoint carries " +
			"them over every so often, and at the end of the trial. Every page is compared afterwards.",
		Params: []workload.Param{
			{Name: "mode", Type: workload.Choice, Default: modeDelete,
				Choices: []string{modeDelete, modeTruncate, modeWAL}, Doc: "as PRAGMA journal_mode"},
			{Name: "pages", Type: workload.Int, Default: "3", Min: 1, Max: 1000,
				Doc: "pages of 4 KiB that a commit changes; with a rollback journal page 1 comes on top"},
			{Name: "size", Type: workload.Size, Default: "4MiB", Min: 64 << 10, Max: 1 << 30,
				Doc: "size of the database"},
			{Name: "checkpoint", Type: workload.Int, Default: "16", Min: 1, Max: 10_000,
				Doc: "commits between checkpoints in mode wal; SQLite has one every 1000 pages, here they are more " +
					"so that short trials hold some"},
			{Name: "fsync", Type: workload.Bool, Default: "yes",
				Doc: "flush where the database does (synchronous=FULL), or never (OFF)"},
			{Name: "locks", Type: workload.Bool, Default: "yes",
				Doc: "take and release the locks that the database takes"},
		},
		Metrics: []unit.Metric{
			rate("commits_per_second", "commits/s", "transactions made durable per second", true),
			latency("commit_p50_ns", "median time of a commit", false, false),
			latency("commit_p99_ns", "99th percentile of the time of a commit", false, true),
		},
		Space: func(p workload.Params) int64 {
			return p.Int("size") + 2*p.Int("pages")*p.Int("checkpoint")*(dbPage+frameHeader) + 2<<20
		},
		New: func(p workload.Params) (workload.Trial, error) {
			c := &commits{mode: p["mode"], pages: int(p.Int("pages")), all: int(p.Int("size") / dbPage),
				every: int(p.Int("checkpoint")), fsync: p.Bool("fsync"), locks: p.Bool("locks")}
			if c.pages >= c.all {
				return nil, fmt.Errorf("dev.journal: %d pages in a commit and %d in the database: give fewer pages "+
					"or a larger size", c.pages, c.all)
			}
			return c, nil
		},
	}
}

func compileKind() workload.Kind {
	return workload.Kind{
		Name: "dev.compile", Family: family, WorkUnit: "translation unit", Needs: needs,
		Doc: "Does the file operations of building a C project, in the proportions measured on a real one (Lua with " +
			"gcc 12): per translation unit 102 headers of 0.2 to 27 KB are found and read after 129 misses on the " +
			"include path, an object of 16 KB is written in small pieces, archived and linked. " +
			"Only the operations: no CPU time beyond theirs, unless think gives some; no starting of programs. One " +
			"unit is one translation unit; after units of them the results are removed and the build begins again. " +
			"With workaround the sources are copied to the environment's own disk first and the results back at the " +
			"end, as cp does it; each unit brings its source and its share of the headers.",
		Params: []workload.Param{
			{Name: "units", Type: workload.Int, Default: "64", Min: 1, Max: 10_000,
				Doc: "translation units in the project"},
			{Name: "rename", Type: workload.Bool, Default: "yes",
				Doc: "write an object under another name and rename it (clang, ccache, Go, Rust), or in place (gcc)"},
			{Name: "think", Type: workload.Duration, Default: "0s",
				Doc: "time that compiling a unit takes at least, spent busy between reading and writing"},
			workaroundParam(),
			cacheParam(),
		},
		Metrics: []unit.Metric{rate("units_per_second", "units/s",
			"translation units compiled, archived and linked per second", true)},
		MaxWorkFor: whenCold(func(p workload.Params) int64 { return p.Int("units") }),
		Space: func(p workload.Params) int64 {
			return p.Int("units")*(sourceSize+4096+3*(int64(objectSize())+8192)) + 4<<20
		},
		New: func(p workload.Params) (workload.Trial, error) {
			if p.Duration("think") < 0 {
				return nil, fmt.Errorf("dev.compile: think=%s: give a time of at least 0", p["think"])
			}
			c := &compile{units: int(p.Int("units")), cache: p["cache"], rename: p.Bool("rename"),
				think: p.Duration("think")}
			if p.Bool("workaround") {
				c.aside = &aside{}
			}
			return c, nil
		},
	}
}
