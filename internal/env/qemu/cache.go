package qemu

import (
	"fmt"
	"time"
)

// String says what a cache mode means.
func (m cacheMode) String() string {
	return fmt.Sprintf("direct=%s,no-flush=%s,guest-write-cache=%s", onOff(m.direct), onOff(m.noFlush), onOff(m.write))
}

// qmp returns a session with QEMU's machine protocol, which greets only once.
func (v *vm) qmp() (*qmp, error) {
	if v.session == nil {
		q, err := newQMP(v.control, 5*time.Second)
		if err != nil {
			return nil, err
		}
		v.session = q
	}
	return v.session, nil
}

// readCaches asks QEMU how it opened its disks, by their id.
func (v *vm) readCaches() (map[string]cacheMode, error) {
	q, err := v.qmp()
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
	if err := q.execute("query-block", 5*time.Second, &blocks); err != nil {
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

// checkCache holds what QEMU says of a disk against what it was asked for.
func checkCache(modes map[string]cacheMode, id string, want cacheMode, setting string) error {
	got, ok := modes[id]
	if !ok {
		return fmt.Errorf("read back the cache mode of disk %s: QEMU knows of no such disk", id)
	}
	if got != want {
		return fmt.Errorf("QEMU opened disk %s with %s, not %s as cache=%s asks", id, got, want, setting)
	}
	return nil
}
