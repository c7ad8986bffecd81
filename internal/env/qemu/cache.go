package qemu

import (
	"errors"
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

// readCache asks QEMU how it opened the scratch disk.
func (v *vm) readCache() (cacheMode, error) {
	q, err := v.qmp()
	if err != nil {
		return cacheMode{}, err
	}
	var blocks []struct {
		QDev     string `json:"qdev"`
		Inserted *struct {
			Cache struct {
				WriteBack bool `json:"writeback"`
				Direct    bool `json:"direct"`
				NoFlush   bool `json:"no-flush"`
			} `json:"cache"`
		} `json:"inserted"`
	}
	if err := q.execute("query-block", 5*time.Second, &blocks); err != nil {
		return cacheMode{}, err
	}
	for _, b := range blocks {
		if c := b.Inserted; c != nil {
			return cacheMode{direct: c.Cache.Direct, noFlush: c.Cache.NoFlush, write: c.Cache.WriteBack}, nil
		}
	}
	return cacheMode{}, errors.New("read back the scratch disk's cache mode: QEMU knows of no disk")
}
