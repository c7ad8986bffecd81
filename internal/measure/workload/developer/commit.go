package developer

// rollback is a commit with a rollback journal: the old pages are saved in it, the new ones are written in place, and
// the commit is the removal or truncation of the journal.
func (c *commits) rollback(chosen []uint32) error {
	if err := c.beginRead(); err != nil {
		return err
	}
	if err := c.lock(c.db, lockWrite, lockReserved, 1); err != nil {
		return err
	}
	if _, err := c.db.readAt(c.in, int64(chosen[0])*dbPage); err != nil {
		return err
	}
	for range 2 { // SQLite checks twice that its file is still in place
		if err := c.root.lstat(c.file.db, &c.status); err != nil {
			return err
		}
	}
	j, err := c.root.open(c.file.journal, orMade)
	if err != nil {
		return err
	}
	err = c.through(j, chosen)
	if c.mode == modeTruncate && err == nil {
		if err = j.truncate(0); err == nil {
			err = c.sync(j)
		}
	}
	if e := j.close(); err == nil {
		err = e
	}
	if c.mode == modeDelete && err == nil {
		err = c.root.unlink(c.file.journal)
	}
	if err != nil {
		return err
	}
	return c.release()
}

// beginRead takes a reader's lock and checks whether another process left a journal or changed the database.
func (c *commits) beginRead() error {
	if err := c.lock(c.db, lockRead, lockPending, 1); err != nil {
		return err
	}
	if err := c.lock(c.db, lockRead, lockShared, lockSharedLen); err != nil {
		return err
	}
	if err := c.lock(c.db, lockNone, lockPending, 1); err != nil {
		return err
	}
	if err := c.root.lstat(c.file.journal, &c.status); err != nil && !absent(err) {
		return err
	}
	if _, err := c.db.readAt(c.in[:16], 24); err != nil {
		return err
	}
	if err := c.root.lstat(c.file.wal, &c.status); err != nil && !absent(err) {
		return err
	}
	return c.db.stat(&c.status)
}

// through writes journal and database.
func (c *commits) through(j handle, chosen []uint32) error {
	if err := j.stat(&c.status); err != nil {
		return err
	}
	if err := j.writeAt(c.small[:journalHeader], 0); err != nil {
		return err
	}
	off := int64(journalHeader)
	for i := len(chosen) - 1; i >= -1; i-- { // page 1 comes last, with the exclusive lock
		page := uint32(0)
		if i >= 0 {
			page = chosen[i]
		} else if err := c.exclusive(); err != nil {
			return err
		}
		if err := c.save(j, page, &off); err != nil {
			return err
		}
	}
	if _, err := j.readAt(c.small[:8], off); err != nil { // is there an old journal after this one?
		return err
	}
	if err := c.sync(j); err != nil {
		return err
	}
	if err := c.syncDir(); err != nil {
		return err
	}
	if err := j.writeAt(c.small[:12], 0); err != nil { // the number of pages makes the journal valid
		return err
	}
	if err := c.sync(j); err != nil {
		return err
	}
	if err := c.put(0); err != nil {
		return err
	}
	for _, p := range chosen {
		if err := c.put(p); err != nil {
			return err
		}
	}
	return c.sync(c.db)
}

// save writes one page to the journal: its number, what it holds, a checksum.
func (c *commits) save(j handle, page uint32, off *int64) error {
	if err := j.writeAt(c.small[:4], *off); err != nil {
		return err
	}
	if err := j.writeAt(c.stamped(page), *off+4); err != nil {
		return err
	}
	*off += 4 + dbPage + 4
	return j.writeAt(c.small[:4], *off-4)
}

// put writes one page to the database.
func (c *commits) put(page uint32) error {
	c.last[page] = c.commit
	return c.db.writeAt(c.stamped(page), int64(page)*dbPage)
}

func (c *commits) exclusive() error {
	if err := c.lock(c.db, lockWrite, lockPending, 1); err != nil {
		return err
	}
	return c.lock(c.db, lockWrite, lockShared, lockSharedLen)
}

func (c *commits) release() error {
	if err := c.lock(c.db, lockRead, lockShared, lockSharedLen); err != nil {
		return err
	}
	if err := c.lock(c.db, lockNone, lockPending, 2); err != nil {
		return err
	}
	return c.lock(c.db, lockNone, 0, 0)
}

// syncDir flushes the directory: without its name, the journal's content would be lost.
func (c *commits) syncDir() error {
	if !c.fsync {
		return nil
	}
	d, err := c.root.open(c.file.dir, directory)
	if err != nil {
		return err
	}
	err = d.flushDir()
	if e := d.close(); err == nil {
		err = e
	}
	return err
}

func (c *commits) sync(h handle) error {
	if !c.fsync {
		return nil
	}
	return h.flush()
}

func (c *commits) lock(h handle, kind int16, start, length int64) error {
	if !c.locks {
		return nil
	}
	return h.lock(kind, start, length)
}

// appendLog is a commit with a write-ahead log: the new pages are appended to it. A checkpoint copies them to the
// database from time to time.
func (c *commits) appendLog(chosen []uint32) error {
	for _, l := range [...]struct {
		kind  int16
		start int64
	}{{lockWrite, lockReader}, {lockNone, lockReader}, {lockRead, lockReader}, {lockWrite, lockWriter}} {
		if err := c.lock(c.shm, l.kind, l.start, 1); err != nil {
			return err
		}
	}
	if _, err := c.db.readAt(c.in, int64(chosen[0])*dbPage); err != nil {
		return err
	}
	for _, p := range chosen {
		off := walHeader + int64(len(c.logged))*(frameHeader+dbPage)
		if err := c.wal.writeAt(c.small[:frameHeader], off); err != nil {
			return err
		}
		if err := c.wal.writeAt(c.stamped(p), off+frameHeader); err != nil {
			return err
		}
		c.logged = append(c.logged, p)
		c.last[p] = c.commit
	}
	if err := c.sync(c.wal); err != nil {
		return err
	}
	if err := c.lock(c.shm, lockNone, lockWriter, 1); err != nil {
		return err
	}
	if err := c.lock(c.shm, lockNone, lockReader, 1); err != nil {
		return err
	}
	if len(c.logged) == cap(c.logged) {
		return c.backfill()
	}
	return nil
}

// backfill is a checkpoint: each page of the log is read from it and written to the database, once, and the log begins
// anew.
func (c *commits) backfill() error {
	if len(c.logged) == 0 {
		return nil
	}
	if err := c.sync(c.wal); err != nil {
		return err
	}
	for i, p := range c.logged {
		off := walHeader + int64(i)*(frameHeader+dbPage) + frameHeader
		if _, err := c.wal.readAt(c.in, off); err != nil {
			return err
		}
		if err := c.db.writeAt(c.in, int64(p)*dbPage); err != nil {
			return err
		}
	}
	c.logged = c.logged[:0]
	c.checkpoint++
	return c.sync(c.db)
}
