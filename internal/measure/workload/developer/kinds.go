package developer

import (
	"fmt"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// needs of all kinds but dev.build: most of a cached operation is the kernel's work.
var needs = workload.Needs{FS: true, CPUBound: true}

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	return []workload.Kind{walkKind(), statusKind(), probeKind(), unpackKind(), removeKind(), editKind(), journalKind(),
		compileKind(), buildKind()}
}

func rate(name, unitName, doc string, primary bool) unit.Metric {
	return unit.Metric{Name: name, Unit: unitName, Better: unit.Higher, Timed: true, Primary: primary,
		Doc: doc}
}

func latency(name, doc string, primary, tail bool) unit.Metric {
	return unit.Metric{Name: name, Unit: "ns", Better: unit.Lower, Timed: true, Primary: primary, Tail: tail,
		Doc: doc}
}

func filesParam(def, doc string) workload.Param {
	return workload.Param{Name: "files", Type: workload.Int, Default: def, Min: 1, Max: 1_000_000,
		Doc: doc + "; rounded up to modules of 64"}
}

// whenCold limits the work of a trial to one pass over everything, because a second pass would find it cached.
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

// unflushed is of work that makes or removes files, and leaves them to the system.
func unflushed(workload.Params) workload.Lasting {
	return workload.Lasting{Flush: workload.FlushNever, Metrics: workload.AllMetrics}
}

// flushedEach is of work that flushes each of its files or commits if it is told to.
func flushedEach(p workload.Params) workload.Lasting {
	return workload.Lasting{Flush: workload.EachIf(p.Bool("fsync")), Metrics: workload.AllMetrics}
}

// results is of work that mostly reads or computes, and leaves its results to the system.
func results(workload.Params) workload.Lasting { return workload.Lasting{Flush: workload.FlushNever} }

func walkKind() workload.Kind {
	return workload.Kind{
		Name: "dev.walk", Family: workload.FamilyFiles, WorkUnit: "module", Needs: needs,
		Is: workload.Traits{Files: true},
		Doc: "Walks a source tree as find does: each directory is opened and listed to its end, then " +
			"its subdirectories. An entry is looked up only if the listing does not report its type. The tree has " +
			"the shape of Go's own; one unit is a module of 64 files in 7 directories.",
		Params: []workload.Param{filesParam("4096", "files in the tree"), cacheParam()},
		Metrics: []unit.Metric{rate("entries_per_second", "entries/s", "files and directories seen per second",
			true), rate("directories_per_second", "dirs/s", "directories listed per second", false)},
		MaxWorkFor: whenCold(modules), Space: space,
		Lasts: workload.NothingLasts,
		New: func(p workload.Params) (workload.Trial, error) {
			return &walk{modules: int(modules(p)), cache: p["cache"]}, nil
		},
	}
}

func statusKind() workload.Kind {
	return workload.Kind{
		Name: "dev.status", Family: workload.FamilyFiles, WorkUnit: "path", Needs: needs,
		Is: workload.Traits{Files: true},
		Doc: "Checks every file of a source tree as git status does: it calls lstat on each path of a " +
			"sorted index, from the top of the tree, and compares size, modification time and inode.",
		Params:     []workload.Param{filesParam("4096", "files in the tree"), cacheParam()},
		Metrics:    []unit.Metric{rate("paths_per_second", "paths/s", "paths checked per second", true)},
		MaxWorkFor: whenCold(func(p workload.Params) int64 { return modules(p) * moduleFiles }), Space: space,
		Lasts: workload.NothingLasts,
		New: func(p workload.Params) (workload.Trial, error) {
			return &lookOver{modules: int(modules(p)), cache: p["cache"]}, nil
		},
	}
}

func probeKind() workload.Kind {
	packages := func(p workload.Params) int64 { return p.Int("packages") }
	return workload.Kind{
		Name: "dev.probe", Family: workload.FamilyFiles, WorkUnit: "resolution", Needs: needs,
		Is: workload.Traits{Files: true},
		Doc: "Resolves modules as Node.js and bundlers do, where most lookups find nothing. One unit " +
			"resolves and loads one package from the top folder's node_modules and one file beside the importing " +
			"file: by default 17 lookups in the order of Node.js 20, 10 of which find nothing. More candidates " +
			"stand for TypeScript and bundlers.",
		Params: []workload.Param{
			{Name: "packages", Type: workload.Int, Default: "512", Min: 1, Max: 100_000,
				Doc: "number of packages; there are as many importing files"},
			{Name: "depth", Type: workload.Int, Default: "5", Min: 1, Max: 32,
				Doc: "folders between the top and the importing file, each searched on the way up"},
			{Name: "candidates", Type: workload.Int, Default: "3", Min: 0, Max: 64,
				Doc: "extensions that are tried for a package in vain"},
			cacheParam(),
		},
		Metrics: []unit.Metric{
			rate("resolutions_per_second", "ops/s", "packages and files, one of each, resolved and loaded per "+
				"second",
				true),
			rate("lookups_per_second", "lookups/s", "names looked up per second, found or not", false),
		},
		MaxWorkFor: whenCold(packages),
		Space:      func(p workload.Params) int64 { return p.Int("packages")*5*4096 + 1<<20 },
		Lasts:      workload.NothingLasts,
		New: func(p workload.Params) (workload.Trial, error) {
			return &probe{packages: int(p.Int("packages")), depth: int(p.Int("depth")),
				candidates: int(p.Int("candidates")), cache: p["cache"]}, nil
		},
	}
}

func unpackKind() workload.Kind {
	return workload.Kind{
		Name: "dev.unpack", Family: workload.FamilyFiles, WorkUnit: "module", Needs: needs, MaxWorkFor: modules,
		Is: workload.Traits{Files: true, ManyFiles: true},
		Doc: "Unpacks a source tree from an archive in memory as tar does: directories; each file, " +
			"written in pieces of up to 10 KiB, with its time and permissions; the directories' times. One unit is " +
			"a module of 64 files in 7 directories, with the sizes of Go's own tree (median 1.8 KB, 564 KB in " +
			"all). A trial unpacks the whole tree at most.",
		Params: []workload.Param{filesParam("30000", "files in the tree")},
		Metrics: []unit.Metric{
			rate("files_per_second", "files/s", "files unpacked per second, with their directories", true),
			rate("mib_per_second", "MiB/s", "bytes of content unpacked per second", false),
		},
		Space: space,
		Lasts: unflushed,
		New:   func(workload.Params) (workload.Trial, error) { return &unpack{}, nil },
	}
}

func removeKind() workload.Kind {
	return workload.Kind{
		Name: "dev.remove", Family: workload.FamilyFiles, WorkUnit: "module", Needs: needs, MaxWorkFor: modules,
		Is: workload.Traits{Files: true, ManyFiles: true},
		Doc: "Removes a source tree as rm -rf does: each directory is listed to its end, its entries " +
			"are removed, then the directory. One unit is a module of 64 files in 7 directories, unpacked before " +
			"the clock starts. A trial removes the whole tree at most.",
		Params: []workload.Param{filesParam("30000", "files in the tree")},
		Metrics: []unit.Metric{rate("files_per_second", "files/s",
			"files removed per second, with their directories", true)},
		Space: space,
		Lasts: unflushed,
		New:   func(workload.Params) (workload.Trial, error) { return &removal{}, nil },
	}
}

func editKind() workload.Kind {
	return workload.Kind{
		Name: "dev.edit", Family: workload.FamilyFiles, WorkUnit: "edit", Needs: needs,
		Is: workload.Traits{Files: true},
		Doc: "Saves one of 64 files, stats it as often as dependants says, and reads it back. If the " +
			"read returns old content, the trial fails; if a stat returns the old size, it warns.",
		Params: []workload.Param{
			{Name: "how", Type: workload.Choice, Default: saveRename, Choices: []string{saveRename, saveInplace},
				Doc: "rename: write a new file and rename it over the old one; inplace: empty the file " +
					"and write it"},
			{Name: "size", Type: workload.Size, Default: "4KiB", Min: 16, Max: 64 << 20,
				Doc: "size of a file, plus up to 15 bytes"},
			{Name: "dependants", Type: workload.Int, Default: "16", Min: 0, Max: 100_000,
				Doc: "stat calls after each save"},
			{Name: "fsync", Type: workload.Bool, Default: "no", Doc: "flush the file before it is " +
				"closed"},
		},
		Metrics: []unit.Metric{
			latency("edit_ns", "mean time of an edit: save, stat calls, read back", true,
				false),
			latency("edit_p50_ns", "that percentile of an edit's time", false, false),
			latency("edit_p99_ns", "that percentile of an edit's time", false, true),
		},
		Space: func(p workload.Params) int64 { return editedFiles*2*(p.Int("size")+8192) + 1<<20 },
		Lasts: flushedEach,
		New: func(p workload.Params) (workload.Trial, error) {
			return &edit{how: p["how"], size: int(p.Int("size")), dependants: int(p.Int("dependants")),
				fsync: p.Bool("fsync")}, nil
		},
	}
}

func journalKind() workload.Kind {
	return workload.Kind{
		Name: "dev.journal", Family: workload.FamilyFiles, WorkUnit: "commit", Needs: needs,
		Is: workload.Traits{Files: true},
		Doc: "Commits small transactions as an embedded database does: one row with an index, with " +
			"the system calls and locks of SQLite 3.40 in their order. delete and truncate: the old pages go to a " +
			"rollback journal (3 file flushes and 1 directory flush; truncate: one more). wal: the new pages go to " +
			"a log (1 flush), and checkpoints copy them to the database.",
		Params: []workload.Param{
			{Name: "mode", Type: workload.Choice, Default: modeDelete,
				Choices: []string{modeDelete, modeTruncate, modeWAL}, Doc: "SQLite's PRAGMA " +
					"journal_mode"},
			{Name: "pages", Type: workload.Int, Default: "3", Min: 1, Max: 1000,
				Doc: "pages of 4 KiB that a commit changes, besides page 1 in a rollback journal"},
			{Name: "size", Type: workload.Size, Default: "4MiB", Min: 64 << 10, Max: 1 << 30,
				Doc: "size of the database"},
			{Name: "checkpoint", Type: workload.Int, Default: "16", Min: 1, Max: 10_000,
				Doc: "commits between checkpoints in mode wal, fewer than SQLite's 1000 pages so that " +
					"short trials have some"},
			{Name: "fsync", Type: workload.Bool, Default: "yes",
				Doc: "yes: flush as with synchronous=FULL; no: never (OFF)"},
			{Name: "locks", Type: workload.Bool, Default: "yes",
				Doc: "take and release the database's locks"},
		},
		Metrics: []unit.Metric{
			rate("commits_per_second", "commits/s", "transactions committed per second", true),
			latency("commit_p50_ns", "that percentile of a commit's time", false, false),
			latency("commit_p99_ns", "that percentile of a commit's time", false, true),
		},
		Space: func(p workload.Params) int64 {
			return p.Int("size") + 2*p.Int("pages")*p.Int("checkpoint")*(dbPage+frameHeader) + 2<<20
		},
		Lasts: flushedEach,
		New: func(p workload.Params) (workload.Trial, error) {
			c := &commits{mode: p["mode"], pages: int(p.Int("pages")), all: int(p.Int("size") / dbPage),
				every: int(p.Int("checkpoint")), fsync: p.Bool("fsync"), locks: p.Bool("locks")}
			if c.pages >= c.all {
				return nil, fmt.Errorf("dev.journal: a commit has %d pages and the database %d: use fewer pages or a "+
					"larger size", c.pages, c.all)
			}
			return c, nil
		},
	}
}

func compileKind() workload.Kind {
	return workload.Kind{
		Name: "dev.compile", Family: workload.FamilyFiles, WorkUnit: "translation unit", Needs: needs,
		Is: workload.Traits{Files: true, ManyFiles: true, Build: true},
		Doc: "Does the file operations of building a C project, in the proportions of a real build " +
			"(Lua with gcc 12), without starting programs. For each translation unit, 102 headers of 0.2 to 27 KB " +
			"are found and read after 129 misses on the include path; an object of 16 KB is written in small " +
			"pieces, archived and linked. After units of them the results are removed and the build begins again.",
		Params: []workload.Param{
			{Name: "units", Type: workload.Int, Default: "64", Min: 1, Max: 10_000,
				Doc: "translation units in the project"},
			{Name: "rename", Type: workload.Bool, Default: "yes",
				Doc: "yes: write an object under another name and rename it, as clang, ccache, Go and " +
					"Rust do; no: in place, as gcc"},
			{Name: "think", Type: workload.Duration, Default: "0s",
				Doc: "CPU time to spend per unit in a busy loop"},
			workaroundParam(),
			cacheParam(),
		},
		Metrics: []unit.Metric{rate("units_per_second", "units/s",
			"translation units compiled, archived and linked per second", true)},
		MaxWorkFor: whenCold(func(p workload.Params) int64 { return p.Int("units") }),
		Space: func(p workload.Params) int64 {
			return p.Int("units")*(sourceSize+4096+3*(int64(objectSize())+8192)) + 4<<20
		},
		Lasts: results,
		New: func(p workload.Params) (workload.Trial, error) {
			if p.Duration("think") < 0 {
				return nil, fmt.Errorf("dev.compile: think=%s: must be at least 0s", p["think"])
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
