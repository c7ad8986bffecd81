package timeaccount

import (
	"maps"
	"slices"
	"strings"

	"tare/internal/record"
)

// disk are the counters of a disk: requests, and sectors of 512 bytes.
type disk struct{ reads, read, writes, written, flushes int64 }

const (
	sector = 512
	// mostDisks bounds the disks of a reading.
	mostDisks = 1024
)

// notDisks are the beginnings of the names of what is made of disks, memory or files, so that nothing is counted twice.
var notDisks = []string{"loop", "ram", "zram", "dm-", "md", "sr", "fd"}

// parseDisks reads /proc/diskstats: of each whole disk, the counters that matter. A last line that is cut is left out.
func parseDisks(text string) map[string]disk {
	all := map[string]disk{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 14 || len(f) < 20 && !strings.HasSuffix(line, "\n") || len(all) >= mostDisks ||
			slices.ContainsFunc(notDisks, func(p string) bool { return strings.HasPrefix(f[2], p) }) {
			continue
		}
		d := disk{reads: positive(f[3], longest), read: positive(f[5], longest/sector), writes: positive(f[7], longest),
			written: positive(f[9], longest/sector), flushes: -1}
		if len(f) >= 20 { // since Linux 5.5
			d.flushes = positive(f[18], longest)
		}
		if d.reads >= 0 && d.read >= 0 && d.writes >= 0 && d.written >= 0 {
			all[f[2]] = d
		}
	}
	maps.DeleteFunc(all, func(name string, _ disk) bool {
		of := strings.TrimRight(name, "0123456789")
		if of == name {
			return false
		}
		_, is := all[of] // sda1
		if p := strings.TrimSuffix(of, "p"); !is && p != of {
			_, is = all[p] // nvme0n1p1
		}
		return is
	})
	return all
}

// disks takes what all disks of the system did, whoever asked.
func (m *maker) disks() {
	counts := map[string]int64{}
	why := m.unread("diskstats")
	then, now := parseDisks(m.Before["diskstats"]), parseDisks(m.After["diskstats"])
	for name, b := range now {
		a, ok := then[name]
		if !ok {
			continue
		}
		counts[record.DiskReads] += b.reads - a.reads
		counts[record.DisksReadBytes] += (b.read - a.read) * sector
		counts[record.DiskWrites] += b.writes - a.writes
		counts[record.DisksWrittenBytes] += (b.written - a.written) * sector
		if a.flushes >= 0 && b.flushes >= 0 {
			counts[record.DiskFlushes] += b.flushes - a.flushes
		}
	}
	for _, name := range []string{record.DiskReads, record.DisksReadBytes, record.DiskWrites, record.DisksWrittenBytes,
		record.DiskFlushes} {
		switch v, ok := counts[name]; {
		case why != "":
			m.missing(name, why)
		case ok:
			m.count(name, v)
		case len(counts) > 0:
			m.missing(name, "this kernel does not count the flushes of a disk")
		default:
			m.missing(name, "no whole disk is counted on both sides of the trial")
		}
	}
}
