package qemu

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// String describes a cache mode.
func (m cacheMode) String() string {
	return fmt.Sprintf("direct=%s,no-flush=%s,guest-write-cache=%s", onOff(m.direct), onOff(m.noFlush), onOff(m.write))
}

// answerTime is how long a working QEMU may take to answer: it answers between two pieces of the guest's work, and may
// wait for its disks.
const answerTime = 30 * time.Second

// monitor is a connection to QEMU's monitor that speaks when it is first needed.
type monitor struct {
	conn net.Conn
	qmp  *qmp
}

func (m *monitor) ask(command string, limit time.Duration, result any) error {
	return m.within(limit, command, limit, result)
}

// within asks. greeting bounds QEMU's greeting, which comes only once.
func (m *monitor) within(greeting time.Duration, command string, limit time.Duration, result any) error {
	if m.qmp == nil {
		q, err := newQMP(m.conn, greeting)
		if err != nil {
			return err
		}
		m.qmp = q
	}
	return m.qmp.execute(command, limit, result)
}

// readCaches asks QEMU for the cache mode of each disk, by id.
func (v *vm) readCaches() (map[string]cacheMode, error) {
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
	if err := v.ask("query-block", answerTime, &blocks); err != nil {
		return nil, err
	}
	modes := map[string]cacheMode{}
	for _, b := range blocks {
		if c := b.Inserted; c != nil {
			id := c.Node
			// A manager names nodes as it likes. QEMU says the name of a disk, or where a part of it is.
			if _, device, ok := strings.Cut("/"+b.QDev, "/"+AliasPrefix); ok {
				id, _, _ = strings.Cut(device, "/")
			}
			modes[id] = cacheMode{direct: c.Cache.Direct, noFlush: c.Cache.NoFlush, write: c.Cache.WriteBack}
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
