package developer

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/clock"
	"tare/internal/sys/histogram"
	"tare/internal/sys/sql/promise"
)

// The ways to commit, named as SQLite's PRAGMA journal_mode names them.
const (
	modeDelete   = "delete"
	modeTruncate = "truncate"
	modeWAL      = "wal"
)

// Sizes and places of SQLite's file formats (https://www.sqlite.org/fileformat2.html, /walformat.html).
const (
	dbPage        = 4096
	journalHeader = 512
	frameHeader   = 24
	walHeader     = 32
	lockPending   = 0x4000_0000
	lockReserved  = lockPending + 1
	lockShared    = lockPending + 2
	lockSharedLen = 510
	lockWriter    = 120 // of the write-ahead log, in the file that is shared memory
	lockReader    = 124
)

// commits is one trial of dev.journal. Its system calls are those of SQLite 3.40 at synchronous=FULL, as
//
//	strace -e trace=file,desc python3 -c 'import sqlite3 ...'
//
// shows them for an UPDATE of one indexed row in a transaction of its own: three pages of data, in the rollback modes
// also page 1. Left out are the change of owner, which only root does, and the directory of the shared memory.
type commits struct {
	site
	mode       string
	pages      int // of data, per commit
	all        int // of the database
	every      int // commits between two checkpoints
	fsync      bool
	locks      bool
	file       namesOf
	db         handle
	wal, shm   handle
	isOpen     bool
	page       []byte // what is written, with a stamp
	in         []byte
	small      []byte
	order      []uint32 // pages of all commits of one cycle, ascending within a commit
	at         int      // next of order
	last       []uint64 // the commit that wrote a page last
	commit     uint64
	logged     []uint32 // pages in the log since the last checkpoint
	status     status
	took       *histogram.Histogram
	samples    []float64 // ns
	checkpoint int
}

// namesOf are the files of a database.
type namesOf struct{ db, journal, wal, shm, dir name }

// cycle is the number of commits before the same pages are written again.
const cycle = 1024

// Setup makes the database.
func (c *commits) Setup(_ context.Context, b *workload.Bench) error {
	room := int64(c.all+2*c.pages*c.every)*(dbPage+frameHeader) + 1<<20
	if err := c.fresh(b, "journal", room, 8); err != nil {
		return err
	}
	synchronous := map[bool]string{true: "FULL", false: "OFF"}[c.fsync]
	b.Note(promise.State, promise.Settings{Family: promise.SQLite,
		Values: map[string]string{"journal_mode": c.mode, "synchronous": synchronous}}.Text())
	c.page, c.in, c.small = fileio.Aligned(dbPage), fileio.Aligned(dbPage), fileio.Aligned(journalHeader)
	fileio.FillRandom(c.page, b.Seed)
	clear(c.in)
	clear(c.small)
	c.file = namesOf{c.root.name("work.db"), c.root.name("work.db-journal"), c.root.name("work.db-wal"),
		c.root.name("work.db-shm"), c.root.name(".")}
	g := rand.New(rand.NewPCG(b.Seed, 0x6a6f_7572_6e61_6c)) // "journal"
	for range cycle {
		chosen := map[uint32]bool{}
		var list []int64 // of which the agent has a sort anyway
		for len(list) < c.pages {
			if p := 1 + g.Uint32N(uint32(c.all-1)); !chosen[p] { // page 1 of SQLite is number 0 here
				chosen[p] = true
				list = append(list, int64(p))
			}
		}
		slices.Sort(list)
		for _, p := range list {
			c.order = append(c.order, uint32(p))
		}
	}
	c.last = make([]uint64, c.all)
	c.logged = make([]uint32, 0, c.pages*c.every)
	c.took = &histogram.Histogram{}
	c.samples = make([]float64, 0, workload.MaxSamples)
	b.Check("order", fileio.Digest(fmt.Append(nil, c.order)))
	b.Check("pages", strconv.Itoa(c.pages))
	b.Note("locks", map[bool]string{true: "taken", false: "not taken"}[c.locks && canLock])
	if err := c.make(); err != nil {
		return fileio.Explain("make a database in", c.path, err)
	}
	return nil
}

// make writes all pages, and in mode wal opens the log and the shared memory for the trial.
func (c *commits) make() (err error) {
	if c.db, err = c.root.open(c.file.db, orMade); err != nil {
		return err
	}
	c.isOpen = true
	for p := range c.all {
		if err := c.db.writeAt(c.stamped(uint32(p)), int64(p)*dbPage); err != nil {
			return err
		}
	}
	if err := c.db.flush(); err != nil {
		return err
	}
	if c.mode != modeWAL {
		return settle(c.path)
	}
	if c.wal, err = c.root.open(c.file.wal, orMade); err != nil {
		return err
	}
	if c.shm, err = c.root.open(c.file.shm, orMade); err != nil {
		return err
	}
	if err := c.shm.writeAt(c.page, 0); err != nil {
		return err
	}
	if err := c.wal.writeAt(c.small[:walHeader], 0); err != nil {
		return err
	}
	return settle(c.path)
}

// stamped is a page as the present commit writes it, valid until the next call.
func (c *commits) stamped(p uint32) []byte {
	binary.LittleEndian.PutUint64(c.page, c.commit)
	binary.LittleEndian.PutUint64(c.page[8:], uint64(p))
	return c.page
}

// Measure does b.Work commits and takes the time of each.
func (c *commits) Measure(ctx context.Context, b *workload.Bench) error {
	leave, err := c.alone()
	if err != nil {
		return err
	}
	defer leave()
	stride := (b.Work + workload.MaxSamples - 1) / workload.MaxSamples
	last := clock.Now()
	for i := range b.Work {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.commit++
		chosen := c.order[c.at : c.at+c.pages]
		if c.at += c.pages; c.at == len(c.order) {
			c.at = 0
		}
		var err error
		if c.mode == modeWAL {
			err = c.appendLog(chosen)
		} else {
			err = c.rollback(chosen)
		}
		if err != nil {
			return c.explain(err)
		}
		now := clock.Now()
		ns := now.Sub(last).Nanoseconds()
		last = now
		c.took.Record(ns)
		if i%stride == 0 && len(c.samples) < cap(c.samples) {
			c.samples = append(c.samples, float64(ns))
		}
	}
	return c.explain(c.backfill())
}

func (c *commits) explain(err error) error {
	if err == nil {
		return nil
	}
	if c.locks && noLocks(err) {
		return &record.Failure{Kind: "refused",
			Message: fmt.Sprintf("commit %d in %s: this file system has no byte-range locks (%v), which databases "+
				"need; use locks=no to run without", c.commit, c.path, err)}
	}
	return fileio.Explain(fmt.Sprintf("commit %d in", c.commit), c.path, err)
}

// Report compares every page with the commit that wrote it last.
func (c *commits) Report(b *workload.Bench) error {
	got, err := os.ReadFile(filepath.Join(c.path, "work.db"))
	if err != nil {
		return fileio.Explain("read", c.path, err)
	}
	if len(got) != c.all*dbPage {
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("the database has %d bytes after the commits, but %d were written", len(got),
				c.all*dbPage)}
	}
	for p, n := range c.last {
		page := got[p*dbPage : (p+1)*dbPage]
		if binary.LittleEndian.Uint64(page) != n || binary.LittleEndian.Uint64(page[8:]) != uint64(p) ||
			string(page[16:]) != string(c.page[16:]) {
			return &record.Failure{Kind: "measure",
				Message: fmt.Sprintf("page %d of the database differs from what commit %d wrote", p, n)}
		}
	}
	if c.mode == modeWAL {
		b.Note("checkpoints", strconv.Itoa(c.checkpoint))
	}
	b.Report("commits_per_second", b.Rate(1))
	b.Report("commit_p50_ns", float64(c.took.Quantile(0.5)))
	b.Report("commit_p99_ns", float64(c.took.Quantile(0.99)))
	rates := make([]float64, 0, len(c.samples))
	for _, ns := range c.samples {
		if ns > 0 {
			rates = append(rates, 1e9/ns)
		}
	}
	b.Sample("commits_per_second", rates)
	return nil
}

// Cleanup closes and removes the database.
func (c *commits) Cleanup(*workload.Bench) error {
	var err error
	if c.isOpen {
		for _, h := range []handle{c.db, c.wal, c.shm} {
			if h == (handle{}) {
				continue
			}
			if e := h.close(); err == nil {
				err = e
			}
		}
		c.isOpen = false
	}
	if e := c.remove(); err == nil {
		err = e
	}
	return err
}
