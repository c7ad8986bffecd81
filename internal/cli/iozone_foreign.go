package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// foreign are the letters of iozone that this command does not have: whoever types them out of habit is told what they
// are and what does the same here, and not that they are unknown. value says that iozone takes an argument after the
// letter.
var foreign = []struct {
	letter  string
	value   bool
	what    string // to iozone
	instead string
}{
	{"t", true, "throughput with several processes",
		"use tare run -w fs.seqwrite:threads=N and the other kinds of fs.* that have threads="},
	{"T", false, "threads instead of processes", "use threads: tare run -w fs.seqwrite:threads=N"},
	{"l", true, "the smallest number of processes", "use tare run with a -w fs.seqwrite:threads=N for each number"},
	{"u", true, "the largest number of processes", "use tare run with a -w fs.seqwrite:threads=N for each number"},
	{"F", true, "a file for each process", "use tare run -w fs.seqwrite:threads=N,files=own"},
	{"x", false, "no stone-walling of processes",
		"the rate of several threads always counts all threads until the last one is done"},
	{"o", false, "writes with O_SYNC", "use tare run -w fs.seqwrite:fsync=datasync-each, which flushes each record"},
	{"B", false, "files mapped into memory", "use tare run -w fs.seqwrite:engine=mmap"},
	{"D", false, "msync(MS_ASYNC) of mapped files", "use tare run -w fs.seqwrite:engine=mmap"},
	{"G", false, "msync(MS_SYNC) of mapped files", "use tare run -w fs.seqwrite:engine=mmap,fsync=each"},
	{"H", true, "POSIX asynchronous I/O of a depth", "use tare run -w fs.randread:engine=io_uring,qd=N"},
	{"k", true, "POSIX asynchronous I/O without copies", "use tare run -w fs.randread:engine=io_uring,qd=N"},
	{"U", true, "a file system to unmount and mount again between tests",
		"use --cold, which drops the file from the cache and checks that it is gone"},
	{"p", false, "a purge of the processor's cache before each operation",
		"leave it out: data larger than that cache is not in it"},
	{"S", true, "the size of the processor's cache", "leave it out: nothing is purged"},
	{"L", true, "the length of a line of the processor's cache", "leave it out: nothing is purged"},
	{"O", false, "operations per second",
		"use tare run -w fs.randread:bs=4KiB, which reports operations per second and their latencies"},
	{"N", false, "microseconds per operation",
		"use tare run -w fs.randread:bs=4KiB, which reports percentiles of latencies"},
	{"Q", false, "files of offsets and latencies", "use tare run -w fs.randread, which keeps latencies in its bundle"},
	{"P", true, "the first processor that processes are bound to", "use taskset, or tare run -e host='local?cpus=0'"},
	{"K", false, "jitter in the access pattern", "use tare run -w fs.randread"},
	{"j", true, "the stride of strided access", "the stride is 17 records, iozone's default"},
	{"E", false, "the tests with pread", "the reads and writes of tare run -w fs.seqread are pread and pwrite"},
	{"w", false, "keep the temporary file", "the file is in a private directory that is removed after the run"},
	{"W", false, "locks around reads and writes", "use tare card, which shows how locks behave"},
	{"J", true, "a computation before each operation", "leave it out"},
	{"d", true, "a delay before each process", "leave it out"},
	{"A", false, "every record size for every file", "use -a -z"},
	{"C", false, "what each process transferred", "use tare run -w fs.seqwrite:threads=N"},
	{"M", false, "the system's name in the output", "every bundle records it"},
	{"m", false, "several buffers", "leave it out"},
	{"V", true, "a pattern that is verified", "everything that is read is verified; see --data"},
	{"X", true, "offsets to write from a file", "leave it out"},
	{"Y", true, "offsets to read from a file", "leave it out"},
	{"Z", false, "mapped and ordinary I/O mixed", "leave it out"},
	{"+", true, "iozone's extended options",
		"leave them out; every trial of tare run records the use of the processor that -+u prints"},
}

func foreignName(letter string) string { return "iozone-" + letter }

// addForeign declares them, hidden.
func addForeign(f *pflag.FlagSet) {
	for _, x := range foreign {
		if x.value {
			f.StringP(foreignName(x.letter), x.letter, "", "")
		} else {
			f.BoolP(foreignName(x.letter), x.letter, false, "")
		}
		_ = f.MarkHidden(foreignName(x.letter))
	}
}

// refuseForeign explains the first of them that was given.
func refuseForeign(f *pflag.FlagSet) error {
	for _, x := range foreign {
		if g := f.Lookup(foreignName(x.letter)); g.Changed {
			letter := "-" + x.letter
			if x.letter == "+" {
				letter += strings.TrimSpace(g.Value.String())
			}
			return fmt.Errorf("%s (in iozone: %s) is not supported here; %s", letter, x.what, x.instead)
		}
	}
	return nil
}
