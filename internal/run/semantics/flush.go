package semantics

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/internal/measure/fileops"
)

func flushTrials() []trial {
	return []trial{{lines: []line{{"fsync", "a flush is passed on"}, {"fsync-time", "4 KiB written and flushed take"}},
		run: tryFlush}}
}

// Flushes tried on each side, and how many bytes each writes first.
const (
	flushes   = 12
	flushSize = 4096
)

// noFlush are file systems whose flush is known to do nothing: their drivers have no code for it.
var noFlush = map[string]string{
	"vboxsf":      "the kernel's driver for VirtualBox's shared folders answers a flush without passing it on",
	"vmhgfs":      "VMware's driver for shared folders has no flush",
	"vmhgfs-fuse": "VMware's program for shared folders has no flush, and the kernel answers instead",
}

// memory are file systems that have nothing to flush to.
var memory = []string{"tmpfs", "ramfs", "rootfs", "hugetlbfs", "devtmpfs"}

// flushTimes returns how long each flush took, sorted.
func (a *actor) flushTimes() ([]int64, *fileops.Fault) {
	h := a.open("flushed", fileops.ForWriting|fileops.Create)
	got, f := a.ask(fileops.Request{Op: fileops.Flush, Handle: h, Size: flushSize, Count: flushes, Sync: true})
	slices.Sort(got.NS)
	return got.NS, f
}

func tryFlush(t *try) {
	inside, f := t.in.flushTimes()
	if f != nil {
		t.refusal("fsync", bad, f)
		t.refusal("fsync-time", neutral, f)
		return
	}
	if len(inside) == 0 {
		return
	}
	took := time.Duration(inside[len(inside)/2])
	seen := "a flush takes " + duration(took) + " inside"
	var fastest time.Duration // on the host
	if t.out != nil {
		if host, f := t.out.flushTimes(); f == nil && t.out.err == nil && len(host) > 0 {
			fastest = time.Duration(host[0])
			seen += fmt.Sprintf(" and %s on the host's side of the folder, %s at least",
				duration(time.Duration(host[len(host)/2])), duration(fastest))
		}
		t.out.err = nil
	}
	answer, rating, why := flushVerdict(t.options.FS, took, fastest)
	t.say("fsync", answer, rating, "%s: %s", seen, why)
	t.sayTime("fsync-time", took, duration(took), neutral, "the median of %d, by the clock inside; %s", len(inside),
		seen)
}

// trustworthy is the shortest flush on the host that says something about one inside: shorter ones are memory, or a
// drive with a cache of its own, and what lies between the two sides decides.
const trustworthy = 200 * time.Microsecond

// flushVerdict says what a flush that takes inside (median), when the host's own takes fastest at least, is worth on a
// file system; fastest is 0 when it is not known. A yes is not among the answers: speed can only disprove.
func flushVerdict(fs string, inside, fastest time.Duration) (answer, rating, why string) {
	fs = strings.TrimPrefix(fs, "fuse.")
	if reason, ok := noFlush[fs]; ok {
		return no, bad, reason
	}
	if slices.Contains(memory, fs) {
		return no, neutral, "the file system is memory and has nothing to flush to"
	}
	if fastest >= trustworthy && inside < fastest/2 {
		return no, bad, "a flush that reached the same storage as the host's could not be so fast"
	}
	if fastest > 0 && fastest < trustworthy {
		return untested, neutral, "the host's own flush is too fast to compare with"
	}
	if fastest > 0 {
		return untested, neutral, "it is slow enough to have been passed on, which proves nothing; watching the " +
			"host's kernel or a power cut would show it"
	}
	return untested, neutral, "there is no host side to compare with"
}
