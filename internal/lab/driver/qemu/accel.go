package qemu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"tare/internal/lab/microvm"
)

// forget is how long the outcome of an accelerator's trial is believed on one boot of the host.
const forget = 7 * 24 * time.Hour

// memory remembers on disk which accelerators booted a guest on this machine, so that one that does not work costs its
// deadline once and not at each opening. It is a help only: when it cannot be read or written, the trial is made again.
type memory struct {
	path    string
	entries map[string]outcome
}

type outcome struct {
	Reason string    `json:"reason"` // why it does not work; "" when it does
	When   time.Time `json:"when"`
}

// openMemory reads the memory at path, or the user's own when that is empty.
func openMemory(path string) *memory {
	m := &memory{path: path, entries: map[string]outcome{}}
	if path == "" {
		cache, err := microvm.DefaultCache()
		if err != nil {
			return m
		}
		m.path = filepath.Join(filepath.Dir(cache), "accel.json")
	}
	if b, err := os.ReadFile(m.path); err == nil && json.Unmarshal(b, &m.entries) != nil || m.entries == nil {
		m.entries = map[string]outcome{}
	}
	return m
}

// key names a trial: the accelerator, the machine, QEMU's version, and this boot of the host, after which another
// kernel, another nesting or another right may be there.
func (m *memory) key(accel, machine, version string) string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // elsewhere the expiry has to do
	sum := sha256.Sum256([]byte(runtime.GOOS + "\n" + string(boot) + "\n" + version))
	return accel + "/" + machine + "/" + hex.EncodeToString(sum[:8])
}

// recall tells what a trial gave: whether it works, or why it does not. Neither means that it was never made.
func (m *memory) recall(key string) (works bool, reason string) {
	o, ok := m.entries[key]
	if age := time.Since(o.When); !ok || age > forget || age < 0 {
		return false, ""
	}
	return o.Reason == "", o.Reason
}

// keep remembers what a trial gave.
func (m *memory) keep(key, reason string) {
	if m.path == "" {
		return
	}
	for k, o := range m.entries {
		if time.Since(o.When) > forget {
			delete(m.entries, k)
		}
	}
	m.entries[key] = outcome{reason, time.Now()}
	b, err := json.MarshalIndent(m.entries, "", "  ")
	if err != nil || os.MkdirAll(filepath.Dir(m.path), 0o700) != nil {
		return
	}
	// Replaced as a whole: two runs at once lose one entry at most, never the file.
	tmp, err := os.CreateTemp(filepath.Dir(m.path), ".accel-*")
	if err != nil {
		return
	}
	_, err = tmp.Write(append(b, '\n'))
	if e := tmp.Close(); err != nil || e != nil || os.Rename(tmp.Name(), m.path) != nil {
		os.Remove(tmp.Name())
	}
}
