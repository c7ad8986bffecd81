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

// forget is how long the result of trying an accelerator is used during one boot of the host.
const forget = 7 * 24 * time.Hour

// memory records on disk which accelerators have booted a guest on this machine. So one that does not work costs its
// deadline once and not at each opening. It is only an optimisation: if it cannot be read or written, the accelerator
// is tried again.
type memory struct {
	path    string
	entries map[string]outcome
}

type outcome struct {
	Reason string    `json:"reason"` // why it does not work; "" if it does
	When   time.Time `json:"when"`
}

// openMemory reads the memory at path, or the user's own if path is empty.
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

// key identifies a try: the accelerator, the machine, QEMU's version, and this boot of the host. Another boot may have
// another kernel, nesting or other rights.
func (m *memory) key(accel, machine, version string) string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // on other systems the expiry must be enough
	sum := sha256.Sum256([]byte(runtime.GOOS + "\n" + string(boot) + "\n" + version))
	return accel + "/" + machine + "/" + hex.EncodeToString(sum[:8])
}

// recall returns the result of an earlier try: whether it works, or why not. If both are zero, there was no try.
func (m *memory) recall(key string) (works bool, reason string) {
	o, ok := m.entries[key]
	if age := time.Since(o.When); !ok || age > forget || age < 0 {
		return false, ""
	}
	return o.Reason == "", o.Reason
}

// keep records the result of a try.
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
	// The file is replaced as a whole, so two simultaneous runs may lose one entry, but never the file.
	tmp, err := os.CreateTemp(filepath.Dir(m.path), ".accel-*")
	if err != nil {
		return
	}
	_, err = tmp.Write(append(b, '\n'))
	if e := tmp.Close(); err != nil || e != nil || os.Rename(tmp.Name(), m.path) != nil {
		os.Remove(tmp.Name())
	}
}
