package qemu

import (
	"fmt"
	"time"
)

// String describes a cache mode.
func (m cacheMode) String() string {
	return fmt.Sprintf("direct=%s,no-flush=%s,guest-write-cache=%s", onOff(m.direct), onOff(m.noFlush), onOff(m.write))
}

// answerTime is how long a working QEMU may take to answer: it answers between two pieces of the guest's work, and may
// wait for its disks.
const answerTime = 30 * time.Second

// qmp returns a connection to QEMU's monitor. limit bounds the greeting, which happens only once.
func (v *vm) qmp(limit time.Duration) (*qmp, error) {
	if v.monitor == nil {
		q, err := newQMP(v.control, limit)
		if err != nil {
			return nil, err
		}
		v.monitor = q
	}
	return v.monitor, nil
}

// readCaches asks QEMU for the cache mode of each disk, by id.
func (v *vm) readCaches() (map[string]cacheMode, error) {
	q, err := v.qmp(answerTime)
	if err != nil {
		return nil, err
	}
	var blocks []struct {
		QDev     string `json:"qdev"`
		Inserted *struct {
			Node  string `json:"node-name"`
			Cache struct {
				WriteBack bool `json:"writeback"`
				Direct    bool `json:"direct"`
				NoFlush   bool `json:"no-flush"`
			} `json:"cache"`
		} `json:"inserted"`
	}
	if err := q.execute("query-block", answerTime, &blocks); err != nil {
		return nil, err
	}
	modes := map[string]cacheMode{}
	for _, b := range blocks {
		if c := b.Inserted; c != nil {
			modes[c.Node] = cacheMode{direct: c.Cache.Direct, noFlush: c.Cache.NoFlush, write: c.Cache.WriteBack}
		}
	}
	return modes, nil
}

// checkCache compares the cache mode that QEMU reports with the requested one.
func checkCache(modes map[string]cacheMode, id string, want cacheMode, setting string) error {
	got, ok := modes[id]
	if !ok {
		return fmt.Errorf("read back the cache mode of disk %s: QEMU has no such disk", id)
	}
	if got != want {
		return fmt.Errorf("QEMU opened disk %s with %s, not with %s as cache=%s requires", id, got, want, setting)
	}
	return nil
}
